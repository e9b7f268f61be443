# shellcheck shell=bash
# Runs the stages of a script that sources this as its last line. The script
# defines usage(), all_stages and a function stage_NAME for each of them.

case ${1:-} in
  -h | --help) usage; exit 0 ;;
  # A process of its own for each stage, so that "set -e" holds within it.
  --one) "stage_$2"; exit ;;
esac

script=$(realpath "$0")
cd "$(git -C "$(dirname "$script")" rev-parse --show-toplevel)" || exit 1
stages=("$@")
((${#stages[@]} > 0)) || stages=("${all_stages[@]}")
for stage in "${stages[@]}"; do
  [[ " ${all_stages[*]} " == *" $stage "* ]] || { usage >&2; exit 2; }
done

failed=0
table=''
for stage in "${stages[@]}"; do
  echo "=== $stage"
  start=$SECONDS
  verdict=ok
  "$script" --one "$stage" || { verdict=FAILED; failed=1; }
  line=$(printf '%-9s %5d s  %s' "$stage" "$((SECONDS - start))" "$verdict")
  echo "=== $line"
  table+="$line"$'\n'
done

printf '\n%s%-9s %5d s\n' "$table" total "$SECONDS"
exit "$failed"
