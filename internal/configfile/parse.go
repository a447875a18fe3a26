package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"
)

// MaxSize is how many bytes a file may have: settings take a few kilobytes.
const MaxSize = 1 << 20

// form says what a file looks like, for whoever wrote something else.
const form = `Write one setting a line, "name: value".`

// Parse reads the text of a file. path is only used to say where. The entries
// come in the order of the file, those that could be read also when something
// else is wrong; the error joins an *Error for every problem.
func Parse(path string, text []byte) ([]Entry, error) {
	p := parser{path: path}
	if len(text) > MaxSize {
		p.problem(Place{Path: path}, "", form, "the file has more than %d bytes", MaxSize)
		return nil, p.err()
	}
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var document yaml.Node
	switch err := loader.Load(&document); {
	case errors.Is(err, io.EOF): // nothing, or comments alone
		return nil, nil
	case err != nil:
		p.syntax(err)
		return nil, p.err()
	}
	p.document(&document)
	var second yaml.Node
	switch err := loader.Load(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		p.syntax(err)
	default:
		p.problem(p.at(&second), "", "Put all settings into one document.", "a second document begins here")
	}
	return p.entries, p.err()
}

type parser struct {
	path     string
	entries  []Entry
	problems []error
}

func (p *parser) err() error { return errors.Join(p.problems...) }

func (p *parser) at(n *yaml.Node) Place { return Place{p.path, n.Line, n.Column} }

func (p *parser) problem(at Place, key, hint, format string, args ...any) {
	p.problems = append(p.problems, &Error{At: at, Key: key, Text: fmt.Sprintf(format, args...), hint: hint})
}

// syntax reports what is no YAML. The library says where by itself, its message
// repeats it.
func (p *parser) syntax(err error) {
	e := &Error{At: Place{Path: p.path}, Text: err.Error(), hint: form + " Quote a value that has \": \" or \" #\" in it."}
	var load *yaml.LoadError
	if errors.As(err, &load) {
		e.At.Line, e.At.Column, e.Text = load.Mark.Line, load.Mark.Column, load.Message
	}
	p.problems = append(p.problems, e)
}

func (p *parser) document(document *yaml.Node) {
	if len(document.Content) == 0 {
		return
	}
	root := document.Content[0]
	switch {
	case root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null":
		return // "---" alone
	case root.Kind != yaml.MappingNode:
		p.problem(p.at(root), "", form, "the file is not a mapping of names to values")
		return
	}
	seen := map[string]Place{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key := root.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			p.problem(p.at(key), "", form, "this is not the name of a setting")
			continue
		}
		if first, again := seen[key.Value]; again {
			p.problem(p.at(key), key.Value, "", "it is already set in line %d", first.Line)
			continue
		}
		seen[key.Value] = p.at(key)
		p.entry(key, root.Content[i+1])
	}
}

func (p *parser) entry(key, node *yaml.Node) {
	e := Entry{Key: key.Value, At: p.at(key), Value: Value{At: p.at(node)}}
	switch node.Kind {
	case yaml.SequenceNode:
		e.Value.List = true
		for _, element := range node.Content {
			if p.scalar(key.Value, element) {
				e.Value.Text = append(e.Value.Text, element.Value)
			}
		}
	default:
		if !p.scalar(key.Value, node) {
			return
		}
		e.Value.Text, e.Value.Bool = []string{node.Value}, node.ShortTag() == "!!bool"
	}
	p.entries = append(p.entries, e)
}

// scalar reports whether a node is one that can be a value.
func (p *parser) scalar(key string, n *yaml.Node) bool {
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		p.problem(p.at(n), key, `Take the line out, or write "" for an empty value.`, "it has no value")
	case n.Kind == yaml.ScalarNode && !plainTags[n.ShortTag()]:
		p.problem(p.at(n), key, "Write the value without a tag.", "the tag %s has no meaning here", n.Tag)
	case n.Kind == yaml.ScalarNode:
		return true
	case n.Kind == yaml.AliasNode:
		p.problem(p.at(n), key, "Write the value out. Quote it if it begins with *.", "aliases have no meaning here")
	default:
		p.problem(p.at(n), key, "Write one value, or a list of values.", "a value cannot have structure")
	}
	return false
}

// plainTags are those that YAML gives to scalars by itself.
var plainTags = map[string]bool{
	"!!str": true, "!!int": true, "!!float": true, "!!bool": true, "!!timestamp": true,
}
