package preflight

// Level says how much a finding matters.
type Level string

// The levels. Fail keeps slots from being ready; Warn does not, but somebody
// should know; Skip is what could not be looked at.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
	Skip Level = "skip"
)

// Side says which server a finding is about.
type Side string

// The sides.
const (
	Upstream Side = "upstream"
	Standby  Side = "standby"
	Helper   Side = "helper"
)

// Finding is one thing that was checked. Its JSON is a documented contract:
// fields are added, never renamed or removed.
type Finding struct {
	Level   Level  `json:"level"`
	Side    Side   `json:"server"`
	Setting string `json:"setting"` // a name of PostgreSQL's where there is one
	Value   string `json:"value"`
	Want    string `json:"want"`   // what it should be
	Change  string `json:"change"` // how to change it, "" when there is nothing to change
	Restart bool   `json:"needs_restart"`
}

// list collects the findings of one server.
type list struct {
	side Side
	all  []Finding
}

// add appends a finding. An ok one says nothing of how to change it.
func (l *list) add(good bool, otherwise Level, f Finding) {
	f.Side, f.Level = l.side, otherwise
	if good {
		f.Level, f.Change, f.Restart = OK, "", false
	}
	l.all = append(l.all, f)
}

func (l *list) must(good bool, f Finding)   { l.add(good, Fail, f) }
func (l *list) should(good bool, f Finding) { l.add(good, Warn, f) }

func (l *list) note(level Level, f Finding) {
	f.Side, f.Level = l.side, level
	l.all = append(l.all, f)
}
