package trace

// Direction is one of the two ways through a connection.
type Direction uint8

// The directions.
const (
	Downstream Direction = iota // from the upstream to the downstream: WAL
	Upstream                    // from the downstream to the upstream: feedback
)

// String returns downstream or upstream.
func (d Direction) String() string {
	if d == Upstream {
		return "upstream"
	}
	return "downstream"
}

// Letter returns what PQtrace prints for it: F for what a frontend sends, B for
// what a backend sends.
func (d Direction) Letter() byte {
	if d == Upstream {
		return 'F'
	}
	return 'B'
}
