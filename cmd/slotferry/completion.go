package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a completion script for a shell",
		ArgsUsage: "bash|zsh|fish",
		Description: `Prints the script to standard output.

  bash:  source <(slotferry completion bash)
  zsh:   source <(slotferry completion zsh)
  fish:  slotferry completion fish | source`,
		Action: func(c *cli.Context) error {
			script, known := completionScripts[c.Args().First()]
			if !known {
				return usageError(withHint(fmt.Errorf("completion: %q is not a shell known here", c.Args().First()),
					"Name one: slotferry completion bash, zsh or fish."))
			}
			_, err := fmt.Fprint(c.App.Writer, script(completions("", c.App.Commands)))
			return err
		},
	}
}

// completionScripts makes a script for each shell.
var completionScripts = map[string]func([]completion) string{
	"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion,
}

// completion is what can follow one command.
type completion struct {
	path        string // "debug decode"; "" for slotferry itself
	subcommands []*cli.Command
	flags       []cli.Flag
}

// completions lists slotferry itself and all of its commands.
func completions(path string, commands []*cli.Command) []completion {
	list := []completion{{path: path, subcommands: commands}}
	for _, c := range commands {
		below := strings.TrimSpace(path + " " + c.Name)
		if len(c.Subcommands) > 0 {
			list = append(list, completions(below, c.Subcommands)...)
			continue
		}
		list = append(list, completion{path: below, flags: c.Flags})
	}
	return list
}

// words are what may stand behind a command: names of commands, or flags.
func (c *completion) words() []string {
	var words []string
	for _, s := range c.subcommands {
		words = append(words, s.Name)
	}
	for _, f := range c.flags {
		words = append(words, "--"+f.Names()[0])
	}
	if c.path == "completion" {
		words = append(words, "bash", "zsh", "fish")
	}
	return words
}

// bashCompletion completes names, and files behind a flag or where a file may be.
func bashCompletion(list []completion) string {
	var b strings.Builder
	b.WriteString(`# bash completion for slotferry
_slotferry() {
	local current=${COMP_WORDS[COMP_CWORD]} path= word words
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case $word in -*) break ;; esac
		path="${path:+$path }$word"
	done
	case $path in
`)
	for _, c := range list {
		fmt.Fprintf(&b, "	%q) words=%q ;;\n", c.path, strings.Join(c.words(), " "))
	}
	b.WriteString(`	*) words= ;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _slotferry slotferry
`)
	return b.String()
}

// zshCompletion works from a directory in fpath as well as when it is sourced.
func zshCompletion(list []completion) string {
	var b strings.Builder
	b.WriteString(`#compdef slotferry
# zsh completion for slotferry
_slotferry() {
	local where= word
	local -a items
	for word in ${words[2,CURRENT-1]}; do
		[[ $word == -* ]] && break
		where="${where:+$where }$word"
	done
	case $where in
`)
	for _, c := range list {
		fmt.Fprintf(&b, "\t(%s) items=(%s) ;;\n", shellQuote(c.path), strings.Join(c.described(), " "))
	}
	b.WriteString(`	esac
	if (( $#items )) && [[ $items[1] != --* || $words[CURRENT] == -* || $words[CURRENT-1] != --* ]]; then
		_describe -o slotferry items && return
	fi
	_files
}
if [[ $funcstack[1] == _slotferry ]]; then
	_slotferry "$@"
else
	(( $+functions[compdef] )) || { autoload -U +X compinit && compinit; }
	compdef _slotferry slotferry
fi
`)
	return b.String()
}

// described are the words with what each is for, "name:what", quoted.
func (c *completion) described() []string {
	usage := map[string]string{}
	for _, s := range c.subcommands {
		usage[s.Name] = s.Usage
	}
	for _, f := range c.flags {
		_, text := flagUsage(f)
		usage["--"+f.Names()[0]], _, _ = strings.Cut(text, ";")
	}
	var list []string
	for _, word := range c.words() {
		list = append(list, shellQuote(strings.TrimSuffix(word+":"+usage[word], ":")))
	}
	return list
}

// shellQuote quotes for bash and zsh.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func fishCompletion(list []completion) string {
	var b strings.Builder
	b.WriteString("# fish completion for slotferry\n")
	for _, c := range list {
		condition := "__fish_use_subcommand"
		if c.path != "" {
			var seen []string
			for _, word := range strings.Fields(c.path) {
				seen = append(seen, "__fish_seen_subcommand_from "+word)
			}
			condition = strings.Join(seen, "; and ")
		}
		for _, s := range c.subcommands {
			unless := ""
			if c.path != "" {
				unless = "; and not __fish_seen_subcommand_from " + strings.Join(c.words(), " ")
			}
			fmt.Fprintf(&b, "complete -c slotferry -f -n %s -a %s -d %s\n", fishQuote(condition+unless), s.Name, fishQuote(s.Usage))
		}
		for _, f := range c.flags {
			usage, takes := "", ""
			if doc, ok := f.(cli.DocGenerationFlag); ok {
				_, usage = placeholder(doc.GetUsage())
				if doc.TakesValue() {
					takes = " -r"
				}
			}
			fmt.Fprintf(&b, "complete -c slotferry -n %s -l %s%s -d %s\n", fishQuote(condition), f.Names()[0], takes, fishQuote(usage))
		}
	}
	return b.String()
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
