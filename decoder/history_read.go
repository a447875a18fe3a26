package decoder

import (
	"context"
	"fmt"
)

// readHistory asks the standby for the history of a timeline, over the replication
// protocol: no SQL function tells it. A first timeline has none.
func readHistory(ctx context.Context, s *sessions, timeline uint32) (History, error) {
	if timeline <= 1 {
		return nil, nil
	}
	conn, err := s.connectReplication(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("connect to read the timeline history: %w", err)
	}
	defer closePgConn(conn)
	rows, err := simpleQuery(ctx, conn, fmt.Sprintf("TIMELINE_HISTORY %d", timeline))
	if err != nil {
		return nil, fmt.Errorf("read history of timeline %d: %w", timeline, err)
	}
	if len(rows) != 1 || len(rows[0]) != 2 {
		return nil, fmt.Errorf("read history of timeline %d: unexpected result", timeline)
	}
	return ParseHistory(string(rows[0][1]))
}
