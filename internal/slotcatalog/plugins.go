package slotcatalog

import "strings"

// SplitPluginList reads output_plugin_libraries: the libraries that a server loads
// as output plugins, since minor versions 16.15, 17.11 and 18.6. Names are
// separated by commas; one in double quotes may have commas and spaces in it, and
// a doubled quote stands for one. The result is never nil.
func SplitPluginList(list string) []string {
	names := []string{}
	var name strings.Builder
	quoted, held := false, "" // held: spaces that count only if more of the name follows
	end := func() {
		if name.Len() > 0 {
			names = append(names, name.String())
		}
		name.Reset()
		held = ""
	}
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '"' && quoted && i+1 < len(list) && list[i+1] == '"':
			i++
			name.WriteByte('"')
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			end()
		case strings.IndexByte(" \t\n\r\f\v", c) >= 0 && !quoted:
			if name.Len() > 0 {
				held += string(c)
			}
		default:
			name.WriteString(held)
			name.WriteByte(c)
			held = ""
		}
	}
	end()
	return names
}
