#!/bin/sh
# A small MCP server for tests: `server.sh [legacy|modern|strict|slow|fragile|deaf|late|early|mute|changing]`.
# What it is sent goes to the file $RECORD, if that is set.
mode=${1:-legacy} held= asker= listener= listed= asknext= listing= flooded=
if [ "$mode" = mute ]; then trap '' TERM; while :; do sleep 1; done; fi
say() { printf '%s\n' "$1"; }
answer() { say "{\"jsonrpc\":\"2.0\",\"id\":$1,\"result\":$2}"; }
text() { answer "$1" "{\"content\":[{\"type\":\"text\",\"text\":\"$2\"}]}"; }
value() { rest=${line#*\"$1\":}; [ "$rest" = "$line" ] || printf '%s' "${rest%%[,\}]*}"; }
notify() { say "{\"jsonrpc\":\"2.0\",\"method\":\"$1\",\"params\":{$2}}"; }

question() { say '{"jsonrpc":"2.0","id":"ask-1","method":"sampling/createMessage","params":{}}'; }

call() {
  case $line in
    *'"name":"progress"'*)
      notify notifications/progress "\"progressToken\":$(value progressToken),\"progress\":1"
      text "$id" done ;;
    *'"name":"hold"'*) held=$id ;;
    *'"name":"release"'*) text "$id" second; text "$held" first ;;
    *'"name":"hang"'*) ;;
    # More log lines than may wait for one caller; `drained` answers it.
    *'"name":"flood"'*)
      flooded=$id count=0
      while [ $count -lt 2500 ]; do
        notify notifications/message '"level":"info","data":"drop"'; count=$((count + 1))
      done ;;
    *'"name":"drained"'*) text "$flooded" flooded; text "$id" done ;;
    *'"name":"progress-hang"'*)
      notify notifications/progress "\"progressToken\":$(value progressToken),\"progress\":1" ;;
    *'"name":"die"'*) echo 'about to die' >&2; exit 3 ;;
    *'"name":"dielate"'*)
      notify notifications/progress "\"progressToken\":$(value progressToken),\"progress\":1"
      exit 3 ;;
    *'"name":"garbage"'*) say 'Debug: [not a message]'; say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{" ;;
    *'"name":"long"'*)
      printf '{"jsonrpc":"2.0","id":%s,"result":{"x":"' "$id"
      head -c 300000 /dev/zero | tr '\0' x; printf '"}}\n' ;;
    *'"name":"endless"'*) yes | tr -d '\n' ;;
    *'"name":"ask"'*) asker=$id; question ;;
    *'"name":"asklater"'*) text "$id" later; question ;;
    # Asks while `tools/list` waits: now, if that was answered already, else when it comes.
    *'"name":"asklist"'*) asker=$id; if [ -n "$listed" ]; then question; else asknext=1; fi ;;
    *'"name":"log"'*) notify notifications/message '"level":"info","data":"secret"'; text "$id" logged ;;
    *'"name":"env"'*) text "$id" "$(env | sort | tr '\n' ' ')" ;;
    *'"name":"forged"'*) text 999999 forged; text "\"$id\"" forged; text "$id" true ;;
    *'"name":"child"'*) sleep 1000 & text "$id" "$$ $!" ;;
    *'"name":"changed"'*)
      meta=
      [ -z "$listener" ] || meta="\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":$listener}"
      notify notifications/tools/list_changed "$meta"; text "$id" told ;;
    *'"name":"touched"'*) notify notifications/resources/updated '"uri":"file:///a"'; text "$id" told ;;
    # Only a heartbeat is left of it.
    *'"name":"beat"'*)
      text "$id" beat
      while :; do notify notifications/message '"level":"info","data":"alive"'; sleep 0.05; done ;;
    # Works for three seconds, and reads nothing meanwhile.
    *'"name":"busy"'*)
      token=$(value progressToken) count=0
      while [ $count -lt 30 ]; do
        count=$((count + 1))
        notify notifications/progress "\"progressToken\":$token,\"progress\":$count"; sleep 0.1
      done
      text "$id" "$$" ;;
    *'"name":"deaf"'*) text "$id" deaf; while :; do sleep 1; done ;;
    *) text "$id" "$$" ;;
  esac
}

while IFS= read -r line; do
  [ -z "$RECORD" ] || printf '%s\n' "$line" >> "$RECORD"
  id=$(value id)
  case $line in
    *'"method":"server/discover"'*)
      case $mode in
        modern|strict) answer "$id" '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}' ;;
        fragile) exit 1 ;;
        deaf) ;;
        late) mode=legacy ;;
        slow) asked=$id ;;
        *) say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"unknown\"}}" ;;
      esac ;;
    *'"method":"initialize"'*)
      if [ "$mode" = strict ]; then
        say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"unknown\"}}"
        continue
      fi
      if [ "$mode" = slow ]; then
        # It has only now come to read, and answers in another order.
        say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"unknown\"}}"
        answer "$asked" '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}'
        mode=modern
        continue
      fi
      # Its client cannot answer this yet, and must not lose it.
      [ "$mode" != early ] || say '{"jsonrpc":"2.0","id":"early","method":"ping"}'
      changes=
      [ "$mode" != changing ] || changes='"listChanged":true'
      answer "$id" '{"protocolVersion":"2025-06-18","capabilities":{"tools":{'"$changes"'},"logging":{},"resources":{"subscribe":true}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"method":"tools/list"'*)
      listed=1
      if [ -n "$asknext" ]; then asknext= listing=$id; question; continue; fi
      answer "$id" '{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*) call ;;
    *'"method":"resources/'*|*'"method":"ping"'*) answer "$id" '{}' ;;
    *'"method":"subscriptions/listen"'*)
      listener=$id
      notify notifications/subscriptions/acknowledged "\"notifications\":{},\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":$id}" ;;
    *'"id":"ask-1"'*)
      [ -z "$listing" ] || answer "$listing" '{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}'
      listing=
      case $line in *'"error"'*) text "$asker" refused ;; *) text "$asker" answered ;; esac ;;
    *'"method":"notifications/'*) ;;
    *) say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"unknown\"}}" ;;
  esac
done
