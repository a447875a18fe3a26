package protocol

import "strings"

// createReplicationSlot reads what follows CREATE_REPLICATION_SLOT. Options are as
// parseCreateReplSlotOptions (walsender.c) takes them, since 15 in parentheses, and
// as words before and since.
func (p *commandParser) createReplicationSlot() Command {
	c := Command{Kind: CommandCreateLogical}
	if c.Slot = p.identifier(); c.Slot == "" {
		return c
	}
	p.keyword("TEMPORARY")
	switch {
	case p.keyword("PHYSICAL"):
		return Command{}
	case !p.keyword("LOGICAL"), p.identifier() == "":
		return c
	case p.symbol('('):
		c.NoSnapshot = p.noSnapshotOption()
	default:
		c.NoSnapshot = p.noSnapshotWord()
	}
	return c
}

// noSnapshotWord reads options of the old syntax, up to the end, and reports
// whether NOEXPORT_SNAPSHOT is the only one about snapshots.
func (p *commandParser) noSnapshotWord() bool {
	no := false
	for !p.end() {
		switch strings.ToUpper(p.word(isIdentByte)) {
		case "NOEXPORT_SNAPSHOT":
			no = true
		case "TWO_PHASE", "RESERVE_WAL":
		default:
			return false
		}
	}
	return no
}

// noSnapshotOption reads options up to the parenthesis and the end, and reports
// whether the only ones about snapshots are SNAPSHOT 'nothing'.
func (p *commandParser) noSnapshotOption() bool {
	no := false
	for {
		name := p.identifier()
		if name == "" {
			return false
		}
		value, ok := p.optionValue()
		switch {
		case !ok, name == "snapshot" && value != "nothing":
			return false
		case name == "snapshot":
			no = true
		}
		switch {
		case p.symbol(','):
		case p.symbol(')'):
			return no && p.end()
		default:
			return false
		}
	}
}

// optionValue takes the value of an option: a string, a word, or none.
func (p *commandParser) optionValue() (value string, ok bool) {
	p.skipSpace()
	switch {
	case p.rest == "":
		return "", false
	case p.rest[0] == '\'':
		return p.quoted('\'')
	case p.rest[0] == '"':
		return p.quoted('"')
	}
	return strings.ToLower(p.word(isIdentByte)), true
}

// symbol takes one character, if it comes next.
func (p *commandParser) symbol(c byte) bool {
	p.skipSpace()
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}
