package protocol

import (
	"strconv"
	"strings"
)

// CommandKind tells apart the commands a relay acts on.
type CommandKind uint8

// The kinds of a Command.
const (
	CommandOther          CommandKind = iota // anything else, also what is not certain
	CommandStartPhysical                     // START_REPLICATION ... [PHYSICAL]
	CommandStartLogical                      // START_REPLICATION SLOT ... LOGICAL
	CommandSlotState                         // SLOT_STATE, which only a relay knows
	CommandIdentifySystem                    // IDENTIFY_SYSTEM
	CommandCreateLogical                     // CREATE_REPLICATION_SLOT ... LOGICAL, or what may be one
)

// String names the command.
func (k CommandKind) String() string {
	switch k {
	case CommandStartPhysical:
		return "START_REPLICATION PHYSICAL"
	case CommandStartLogical:
		return "START_REPLICATION LOGICAL"
	case CommandSlotState:
		return "SLOT_STATE"
	case CommandIdentifySystem:
		return "IDENTIFY_SYSTEM"
	case CommandCreateLogical:
		return "CREATE_REPLICATION_SLOT LOGICAL"
	default:
		return "other"
	}
}

// Command is what a relay reads from the text of a Query.
type Command struct {
	Kind       CommandKind
	Slot       string // "" when none is named
	StartLSN   LSN
	TimelineID uint32 // 0 when none is given
	NoSnapshot bool   // CREATE_REPLICATION_SLOT: certain that its snapshot is of no use to anybody
}

// ParseCommand reads the text of a Query, without its terminator, by the rules
// of repl_scanner.l and repl_gram.y. It does not fail: whatever it cannot read
// with certainty is CommandOther, and the server judges it.
//
//	START_REPLICATION [SLOT name] [PHYSICAL] lsn [TIMELINE n] [;]
//	START_REPLICATION SLOT name LOGICAL lsn [(options)] [;]
//	IDENTIFY_SYSTEM [;]
//	SLOT_STATE [;]
//	CREATE_REPLICATION_SLOT name [TEMPORARY] LOGICAL plugin [options] [;]
//
// With the last it is the other way round: whatever begins so and is not certainly
// PHYSICAL may make a logical slot.
func ParseCommand(query string) Command {
	p := commandParser{rest: query}
	switch {
	case p.keyword("SLOT_STATE"):
		if p.end() {
			return Command{Kind: CommandSlotState}
		}
	case p.keyword("IDENTIFY_SYSTEM"):
		if p.end() {
			return Command{Kind: CommandIdentifySystem}
		}
	case p.keyword("START_REPLICATION"):
		return p.startReplication()
	case p.keyword("CREATE_REPLICATION_SLOT"):
		return p.createReplicationSlot()
	}
	return Command{}
}

func (p *commandParser) startReplication() Command {
	c := Command{Kind: CommandStartPhysical}
	if p.keyword("SLOT") {
		if c.Slot = p.identifier(); c.Slot == "" {
			return Command{}
		}
		if p.keyword("LOGICAL") {
			c.Kind = CommandStartLogical
		}
	}
	if c.Kind == CommandStartPhysical {
		p.keyword("PHYSICAL")
	}
	var err error
	if c.StartLSN, err = ParseLSN(p.word(isLSNByte)); err != nil {
		return Command{}
	}
	if c.Kind == CommandStartLogical {
		return c // options follow, which are none of our business
	}
	if p.keyword("TIMELINE") {
		n, err := strconv.ParseUint(p.word(isDigit), 10, 32)
		if err != nil || n == 0 {
			return Command{}
		}
		c.TimelineID = uint32(n)
	}
	if !p.end() {
		return Command{}
	}
	return c
}

// commandParser takes tokens off the front of a command.
type commandParser struct{ rest string }

func (p *commandParser) skipSpace() { p.rest = strings.TrimLeft(p.rest, " \t\n\r\f\v") }

// keyword takes a keyword in any case, if it comes next as a whole word.
func (p *commandParser) keyword(word string) bool {
	p.skipSpace()
	if len(p.rest) < len(word) || !strings.EqualFold(p.rest[:len(word)], word) {
		return false
	}
	if len(p.rest) > len(word) && isIdentByte(p.rest[len(word)]) {
		return false
	}
	p.rest = p.rest[len(word):]
	return true
}

// identifier takes a name, quoted or not; "" when there is none.
func (p *commandParser) identifier() string {
	p.skipSpace()
	if !strings.HasPrefix(p.rest, `"`) {
		return strings.ToLower(p.word(isIdentByte))
	}
	name, _ := p.quoted('"')
	return name
}

// quoted takes what stands between quotes, of which two in a row are one. Nothing is
// taken when the second is missing.
func (p *commandParser) quoted(quote byte) (text string, ok bool) {
	var b strings.Builder
	q := string(quote)
	for s := p.rest[1:]; ; {
		before, after, found := strings.Cut(s, q)
		if !found {
			return "", false
		}
		b.WriteString(before)
		if !strings.HasPrefix(after, q) {
			p.rest = after
			return b.String(), true
		}
		b.WriteByte(quote)
		s = after[1:]
	}
}

// word takes bytes as long as ok says so.
func (p *commandParser) word(ok func(byte) bool) string {
	p.skipSpace()
	n := 0
	for n < len(p.rest) && ok(p.rest[n]) {
		n++
	}
	w := p.rest[:n]
	p.rest = p.rest[n:]
	return w
}

// end reports whether nothing but one semicolon is left.
func (p *commandParser) end() bool {
	p.skipSpace()
	p.rest = strings.TrimPrefix(p.rest, ";")
	p.skipSpace()
	return p.rest == ""
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLSNByte(c byte) bool {
	return isDigit(c) || c == '/' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func isIdentByte(c byte) bool {
	return isDigit(c) || c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
