package relay_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/cluster/clustertest"
	"github.com/slotferry/slotferry/protocol"
	"github.com/slotferry/slotferry/relay"
)

// A CancelRequest inside TLS, as clients of 17 and later send it, ends the query it
// is for: where the relay ends TLS, behind SSLRequest and from the first byte, and
// where TLS passes through. A key that nobody has cancels nothing and is no error.
func TestCancelInsideTLS(t *testing.T) {
	t.Parallel()
	clustertest.NewestMajor(t, func(t *testing.T, major int) {
		p := newPKI(t)
		primary := tlsPrimary(t, major, p, "host all all 127.0.0.1/32 trust")
		upstream := fmt.Sprintf("host=127.0.0.1 port=%d ", primary.Port())
		ends := startRelay(t, relay.Config{Upstream: upstream + "sslmode=require", Mode: relay.ModeSplice, TLS: p.serverTLS("localhost")})
		passes := startRelay(t, relay.Config{Upstream: upstream + "sslmode=disable", Mode: relay.ModeSplice})
		for _, tt := range []struct {
			name   string
			r      *runningRelay
			direct bool
		}{{"ended", ends, false}, {"ended, direct", ends, true}, {"passed through", passes, false}, {"passed through, direct", passes, true}} {
			t.Run(tt.name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
				defer cancel()
				conn, err := pgconn.Connect(ctx, strings.Replace(via(tt.r, ""), "sslmode=disable", "sslmode=require", 1))
				must(t, err)
				defer conn.Close(context.Background())
				done := make(chan error, 1)
				go func() {
					_, err := conn.Exec(ctx, "SELECT pg_sleep(600)").ReadAll()
					done <- err
				}()
				require(t, "pg_sleep", func(ctx context.Context) (bool, string) {
					n, err := cluster.QueryValue[int](ctx, primary, "postgres",
						"SELECT count(*)::int FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
					return n == 1, fmt.Sprint(n, err)
				})
				wrong := append([]byte{}, conn.SecretKey()...)
				wrong[0] ^= 1
				cancelInside(t, tt.r.addr, tt.direct, protocol.CancelRequest{PID: conn.PID(), Key: wrong})
				select {
				case err := <-done:
					t.Fatalf("a wrong key ended the query: %v", err)
				default:
				}
				cancelInside(t, tt.r.addr, tt.direct, protocol.CancelRequest{PID: conn.PID(), Key: conn.SecretKey()})
				if err := <-done; pgError(err) == nil || pgError(err).Code != "57014" {
					t.Errorf("the query ends with %v", err)
				}
			})
		}
		if lines := strings.Count(ends.log.String(), `"level":"warn"`); lines != 0 {
			t.Errorf("%d warnings:\n%s", lines, ends.log)
		}
	})
}

// cancelInside sends a CancelRequest in TLS and waits for the end of the connection,
// which is all the answer there is.
func cancelInside(t *testing.T, addr string, direct bool, m protocol.CancelRequest) {
	t.Helper()
	raw, err := net.Dial("tcp", addr)
	must(t, err)
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(waitTimeout))
	if !direct {
		_, err = raw.Write(protocol.AppendStartupRequest(nil, protocol.SSLRequestCode))
		must(t, err)
		var yes [1]byte
		if _, err := io.ReadFull(raw, yes[:]); err != nil || yes[0] != 'S' {
			t.Fatalf("SSLRequest is answered with %q, %v", yes, err)
		}
	}
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"postgresql"}})
	_, err = conn.Write(m.Append(nil))
	must(t, err)
	if rest, _ := io.ReadAll(conn); len(rest) > 0 {
		t.Errorf("a CancelRequest is answered with %q", rest)
	}
}
