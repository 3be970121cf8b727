#!/bin/sh
# A small MCP server for tests: its tools are named by $TOOLS or its arguments, and
# are what the file $SETTINGS says, where that is set.
# Where $RECORD is set, it notes there that it was started. Where $DEAF or $FRAIL is
# set, it never answers what it does not know, or ends.
[ -z "$RECORD" ] || echo "started with KEY=$KEY" >> "$RECORD"
[ -z "$SETTINGS" ] || . "$SETTINGS"
list=
for tool in ${TOOLS:-$@}; do
  case $tool in -*) break ;; esac
  words=$(printf '%s' "$tool" | tr _ ' ')
  list="$list,{\"name\":\"$tool\",\"description\":\"${WORDS:-$words}\",\"inputSchema\":{\"type\":\"object\"}}"
done
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
refuse() { printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id"; }
while IFS= read -r line; do
  rest=${line#*\"id\":}
  id=${rest%%[,\}]*}
  case $line in
    *'"method":"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"method":"tools/list"'*) answer "{\"tools\":[${list#,}]}" ;;
    *'"method":"tools/call"'*) answer '{"content":[{"type":"text","text":"done"}]}' ;;
    *'"method":"notifications/'*) ;;
    *'"method":"server/discover"'*) [ -z "$DEAF" ] || continue; [ -z "$FRAIL" ] || exit 1; refuse ;;
    *) refuse ;;
  esac
done
