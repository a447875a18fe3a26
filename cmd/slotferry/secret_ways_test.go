package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/slotferry/slotferry/decoder"
	"github.com/slotferry/slotferry/internal/poll"
	"github.com/slotferry/slotferry/internal/statusdoc"
)

// waySecret is a password that must be quoted in a URI; wayPieces are what is left of
// it however it is quoted.
const waySecret = "aTk3q9xV@mZ7/wLp2hG5t"

var wayPieces = []string{"aTk3q9xV", "wLp2hG5t"}

// hides checks that a text does not show the password, however it is written.
func hides(t *testing.T, where, text string) {
	t.Helper()
	for _, piece := range wayPieces {
		if strings.Contains(text, piece) {
			t.Errorf("%s shows the password:\n%s", where, text)
			return
		}
	}
}

// badServer is a server that nobody can log in to.
type badServer struct {
	addr     string
	mu       sync.Mutex
	password string // that it got last
}

// newBadServer starts one that answers a startup packet by answer.
func newBadServer(t *testing.T, answer func(*badServer, net.Conn, *pgproto3.Backend)) *badServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	b := &badServer{addr: l.Addr().String()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go b.serve(conn, answer)
		}
	}()
	return b
}

func (b *badServer) serve(conn net.Conn, answer func(*badServer, net.Conn, *pgproto3.Backend)) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(waitLong))
	backend := pgproto3.NewBackend(conn, conn)
	for {
		msg, err := backend.ReceiveStartupMessage()
		if err != nil {
			return
		}
		if _, ok := msg.(*pgproto3.StartupMessage); ok {
			answer(b, conn, backend)
			return
		}
		_, _ = conn.Write([]byte("N")) // no TLS, no GSS
	}
}

// asks asks for the password in plain text, and does not like it.
func (b *badServer) asks(_ net.Conn, backend *pgproto3.Backend) {
	backend.Send(&pgproto3.AuthenticationCleartextPassword{})
	if backend.Flush() != nil || backend.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
		return
	}
	if msg, err := backend.Receive(); err == nil {
		if p, ok := msg.(*pgproto3.PasswordMessage); ok {
			b.mu.Lock()
			b.password = p.Password
			b.mu.Unlock()
		}
	}
	backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "password authentication failed"})
	_ = backend.Flush()
}

// refuses is what pg_hba.conf does.
func (b *badServer) refuses(_ net.Conn, backend *pgproto3.Backend) {
	backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28000", Message: "no pg_hba.conf entry"})
	_ = backend.Flush()
}

// chatters does not speak the protocol.
func (b *badServer) chatters(conn net.Conn, _ *pgproto3.Backend) {
	_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
}

func (b *badServer) got() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.password
}

// secretWay is one of the ways to give a password.
type secretWay struct {
	name     string
	env      []string
	conninfo func(where string) string // where is in keyword/value form
}

// secretWays returns all the ways. Their files are in dir.
func secretWays(t *testing.T, dir string) []secretWay {
	t.Helper()
	passfile := secretFile(t, filepath.Join(dir, "pgpass"), "*:*:*:*:"+waySecret+"\n")
	service := secretFile(t, filepath.Join(dir, "services"), "[way]\npassword="+waySecret+"\n")
	asItIs := func(where string) string { return where }
	return []secretWay{
		{"keyword", nil, func(where string) string { return where + " password = '" + waySecret + "'" }},
		{"uri", nil, func(where string) string {
			cfg := map[string]string{}
			for _, pair := range strings.Fields(where) {
				name, value, _ := strings.Cut(pair, "=")
				cfg[name] = value
			}
			return fmt.Sprintf("postgres://%s:aTk3q9xV%%40mZ7%%2FwLp2hG5t@%s:%s/%s?sslmode=%s&connect_timeout=5",
				cfg["user"], cfg["host"], cfg["port"], cfg["dbname"], cfg["sslmode"])
		}},
		{"environment", []string{"PGPASSWORD=" + waySecret}, asItIs},
		{"passfile", nil, func(where string) string { return where + " passfile=" + passfile }},
		{"PGPASSFILE", []string{"PGPASSFILE=" + passfile}, asItIs},
		{"service", []string{"PGSERVICEFILE=" + service}, func(where string) string { return where + " service=way" }},
	}
}

// TestNoSecretIsShown gives passwords in every way there is, has every connection
// fail in another way, and looks everywhere a person could: log, pages, process
// title, state directory, what a client of the listener is told, and the dump of all
// goroutines that SIGQUIT makes. Core dumps, and the environment that the kernel
// shows to the process's own user, are not looked at.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	asks, refuses := newBadServer(t, (*badServer).asks), newBadServer(t, (*badServer).refuses)
	chatters := newBadServer(t, (*badServer).chatters)
	where := func(addr, sslmode string) string {
		host, port, _ := strings.Cut(addr, ":")
		return fmt.Sprintf("host=%s port=%s user=repl dbname=postgres sslmode=%s connect_timeout=5", host, port, sslmode)
	}
	failures := []string{
		where(freeAddr(t), "disable"), where(refuses.addr, "disable"), where(chatters.addr, "disable"),
		where(refuses.addr, "require"), where(asks.addr, "disable"), where("no-such-host.invalid:5432", "disable"),
	}
	for i, way := range secretWays(t, t.TempDir()) {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			server, state, listen := newBadServer(t, (*badServer).asks), t.TempDir(), freeAddr(t)
			upstream, slots := failures[i%len(failures)], failures[(i+1)%len(failures)]
			args := []string{"solo", "--listen", listen, "--upstream", way.conninfo(upstream), "--slots", way.conninfo(slots),
				"--standby", way.conninfo(where(server.addr, "disable")), "--state-dir", state}
			env := append([]string{"PGPASSWORD=", "GOTRACEBACK=system"}, way.env...)
			solo := start(t, env, args...)
			solo.document(t, "both to be refused", func(d *statusdoc.Document) bool {
				return d.Source() != nil && d.Source().Error != "" && d.Helper.Reason == decoder.ReasonStandbyUnreachable &&
					d.Helper.Detail != "not looked at yet"
			})
			if got := server.got(); got != waySecret {
				t.Fatalf("the server got %q: this test shows nothing", got)
			}
			seen := map[string]string{"what a client is told": told(t, listen)}
			if err := solo.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			poll.Require(t, waitLong, "SIGHUP in the log", func(context.Context) (bool, string) {
				return strings.Contains(solo.log(), "SIGHUP"), solo.log()
			})
			for _, path := range []string{"/", "/status", "/readyz", "/livez", "/metrics", "/nothing", "/debug/pprof/", "/debug/vars"} {
				_, seen[path] = get(t, solo, path)
			}
			cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", solo.cmd.Process.Pid))
			if err != nil || !strings.Contains(string(cmdline), "--state-dir") {
				t.Fatalf("the process title is %q, %v", cmdline, err)
			}
			seen["process title"] = string(cmdline)
			solo.end(t, syscall.SIGQUIT)
			if seen["log"] = solo.output(); strings.Count(seen["log"], "\ngoroutine ") < 5 {
				t.Errorf("SIGQUIT has dumped no goroutines:\n%s", seen["log"])
			}
			seen["state directory"] = filesIn(t, state)
			printed := execute(t, env, "", append(slices.Clone(args), "--print-config")...)
			seen["--print-config"] = printed.stdout + printed.stderr
			checked := execute(t, env, "", "check", "--upstream", way.conninfo(upstream), "--standby", way.conninfo(slots))
			seen["check"] = checked.stdout + checked.stderr
			traced := execute(t, env, "", "debug", "trace", way.conninfo(upstream))
			seen["debug trace"] = traced.stdout + traced.stderr
			for name, text := range seen {
				if text == "" {
					t.Errorf("%s is empty", name)
				}
				hides(t, name, text)
			}
		})
	}
}

// told returns the words with which a listener refuses a walreceiver.
func told(t *testing.T, addr string) string {
	t.Helper()
	host, port, _ := strings.Cut(addr, ":")
	ctx, cancel := context.WithTimeout(t.Context(), waitLong)
	defer cancel()
	conn, err := pgconn.Connect(ctx, fmt.Sprintf("host=%s port=%s user=x dbname=x password=of-mine sslmode=disable replication=true", host, port))
	if err == nil {
		_ = conn.Close(ctx)
		t.Fatal("it was let in")
	}
	return err.Error()
}

// filesIn returns the names and contents of all files of a directory.
func filesIn(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		fmt.Fprintln(&all, path)
		_, err = io.Copy(&all, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestNoSecretInUsageErrors gives a password in the wrong place, or in what cannot be
// read: what is refused at once shows it no more.
func TestNoSecretInUsageErrors(t *testing.T) {
	t.Parallel()
	const secret = "aTk3q9xVwLp2hG5t"
	for _, conninfo := range []string{
		"host=a port=x password=" + secret, "password='" + secret, "postgres://u:" + secret + "/x@h:y/", "postgres://u:" + secret + "%zz@h/",
		"postgres://u:" + secret + "@h:99999/x", "host=a passwort=" + secret, "host=a " + secret, "host=a password=" + secret + " nonsense",
		"host=a sslmode=perhaps password=" + secret,
	} {
		for _, args := range [][]string{
			{"relay", "--upstream", conninfo}, {"helper", "--upstream", conninfo}, {"solo", "--upstream", conninfo},
			{"check", "--upstream", conninfo}, {"debug", "trace", conninfo},
			{"debug", "capture", "--listen", "127.0.0.1:0", "--out", filepath.Join(t.TempDir(), "x"), "--upstream", conninfo},
		} {
			refused(t, args...)
		}
	}
	good, url := "host=a user=u dbname=d password="+secret, "http://u:"+secret+"@127.0.0.1:1/"
	for _, args := range [][]string{
		{"relay", good}, {good}, {"relay", "--listen", good, "--upstream", good}, {"relay", "--http", good, "--listen", "127.0.0.1:0", "--upstream", good},
		{"relay", "--upstraem", good}, {"relay", "--password", secret}, {"relay", "--password=" + secret},
		{"status", "--url", url}, {"status", "--url", url + ":x"}, {"check", "--url", url},
		{"relay", "--listen", "127.0.0.1:0", "--upstream", "host=a", "--helper-url", url, "--print-config"},
	} {
		refused(t, args...)
	}
	for _, lines := range [][]string{
		{"upstream: 'host=a password=" + secret}, {"upstream: password: " + secret}, {"passwort: " + secret}, {"upstream: [" + secret + ", a]"},
		{"upstream: host=a port=x password=" + secret}, {"upstream: {password: " + secret + "}"}, {"listen: host=a password=" + secret},
		{"upstream: \"\\x" + secret + "\""}, {secret}, {"upstream: host=a password=" + secret, "upstream: host=a password=" + secret},
	} {
		refused(t, "relay", "--config", configFile(t, 0o600, lines...))
	}
	key := secretFile(t, filepath.Join(t.TempDir(), "key"), "-----BEGIN PRIVATE KEY-----\n"+secret+"\n-----END PRIVATE KEY-----\n")
	refused(t, "relay", "--listen", "127.0.0.1:0", "--upstream", "host=a", "--tls-cert", key, "--tls-key", key)
}

func refused(t *testing.T, args ...string) {
	t.Helper()
	got := execute(t, nil, "", args...)
	if got.status == exitOK {
		t.Errorf("slotferry %q: status %d", args, got.status)
	}
	hides(t, "slotferry "+args[0]+" of "+strings.ReplaceAll(strings.Join(args[1:], " "), "aTk3q9xV", ""), got.stdout+got.stderr)
}
