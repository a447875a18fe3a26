package relay

import (
	"errors"
	"fmt"
	"path"
	"regexp"

	"github.com/slotferry/slotferry/protocol"
)

// tableSyncName is what ReplicationSlotNameForTablesync (tablesync.c) makes:
// subscription, relation, system identifier.
var tableSyncName = regexp.MustCompile(`^pg_[0-9]+_sync_[0-9]+_[0-9]+$`)

// slotFilter is a checked SlotFilters.
type slotFilter struct{ f SlotFilters }

func newSlotFilter(f SlotFilters) (*slotFilter, error) {
	var errs []error
	for _, list := range [][]string{f.Include, f.Exclude, f.Databases} {
		for _, pattern := range list {
			if _, err := path.Match(pattern, ""); err != nil {
				errs = append(errs, fmt.Errorf("glob %q: %w", pattern, err))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &slotFilter{f}, nil
}

// selects reports whether a slot is to be ferried.
func (f *slotFilter) selects(s *protocol.SlotState) bool {
	switch {
	case !f.f.IncludeTableSync && tableSyncName.MatchString(s.Name):
		return false
	case len(f.f.Include) > 0 && !matchesAny(f.f.Include, s.Name):
		return false
	case len(f.f.Databases) > 0 && !matchesAny(f.f.Databases, s.Database):
		return false
	default:
		return !matchesAny(f.f.Exclude, s.Name)
	}
}

func matchesAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return false
}
