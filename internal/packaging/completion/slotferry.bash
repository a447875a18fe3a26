# bash completion for slotferry
_slotferry() {
	local current=${COMP_WORDS[COMP_CWORD]} path= word words
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case $word in -*) break ;; esac
		path="${path:+$path }$word"
	done
	case $path in
	"") words="relay helper solo status check debug version completion" ;;
	"relay") words="--listen --upstream --slots --helper-url --helper-url-token-file --helper-url-ca-file --interval --poll-interval --slot --exclude-slot --database --include-table-sync --hold-back --hold-back-exempt --hold-back-timeout --tls-cert --tls-key --tls-client-ca --refuse-tls --http --http-token-file --http-tls-cert --http-tls-key --log-level --config --print-config" ;;
	"helper") words="--listen --upstream --drop-all --standby --state-dir --node-name --max-sessions --advance-interval --restore-failover --retain-budget --anchor-budget --dry-run --tls-cert --tls-key --tls-client-ca --refuse-tls --http --http-token-file --http-tls-cert --http-tls-key --log-level --config --print-config" ;;
	"solo") words="--listen --upstream --slots --helper-url --helper-url-token-file --helper-url-ca-file --interval --poll-interval --slot --exclude-slot --database --include-table-sync --hold-back --hold-back-exempt --hold-back-timeout --standby --state-dir --node-name --max-sessions --advance-interval --restore-failover --retain-budget --anchor-budget --dry-run --tls-cert --tls-key --tls-client-ca --refuse-tls --http --http-token-file --http-tls-cert --http-tls-key --log-level --config --print-config" ;;
	"status") words="--url --json --watch --every --url-token-file --url-ca-file" ;;
	"check") words="--upstream --standby --url --json --nagios --url-token-file --url-ca-file" ;;
	"debug") words="capture inspect trace replay encode decode" ;;
	"debug capture") words="--listen --upstream --out --max-size --max-files --show-secrets --tls-cert --tls-key --tls-client-ca --refuse-tls --http --http-token-file --http-tls-cert --http-tls-key --log-level" ;;
	"debug inspect") words="--json --type --direction --lsn-from --lsn-to --no-records --show-secrets --conn --slot --summary --at --port" ;;
	"debug trace") words="--json --type --direction --lsn-from --lsn-to --no-records --show-secrets --logical --slot-state --slot --temporary-slot --plugin --option --startpos --endpos" ;;
	"debug replay") words="--listen --conn --keep-time --log-level" ;;
	"debug encode") words="--format --part-size --report" ;;
	"debug decode") words="--format" ;;
	"version") words="" ;;
	"completion") words="bash zsh fish" ;;
	*) words= ;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _slotferry slotferry
