// Package statusserver answers over HTTP what a slotferry process is doing:
//
//	/livez    200 while the process serves
//	/readyz   200 when it is ready, 503 and the reasons when it is not
//	/status   the status document, see package statusdoc
//	/metrics  Prometheus metrics
//	/         the same for people, live
//	/events   what keeps that page live: server-sent events
//
// It answers GET and HEAD, changes nothing, and holds no secret of PostgreSQL's.
// Access says who may ask: everybody who reaches the address, or who knows a
// token; in plain text or over TLS. /livez is open to all: it tells nothing.
//
// The page is written on this side alone, by one template. A browser gets it whole
// at first, and then those sections that have changed; its script puts them where
// they belong and knows nothing of what they say.
package statusserver
