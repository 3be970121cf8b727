#!/bin/sh
# A small MCP server for scans: it introduces itself with `hello.json` and lists
# `tools.json`, a page after the other if there is a `tools-2.json`.
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":' "$id"; cat "$1"; printf '}\n'; }
while IFS= read -r line; do
  id=${line#*\"id\":} id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*) answer hello.json ;;
    *'"cursor":"2"'*) answer tools-2.json ;;
    *'"method":"tools/list"'*) answer tools.json ;;
    *'"method":"notifications/'*) ;;
    *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
  esac
done
