package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"github.com/slotferry/slotferry/internal/conninfo"
	"github.com/slotferry/slotferry/internal/statusdoc"
	"github.com/slotferry/slotferry/internal/statusserver"
	"github.com/slotferry/slotferry/relay"
)

// settings reads a command's flags and collects all that is wrong with them.
type settings struct {
	c         *cli.Context
	ran       invocation
	values    map[string]*value
	look      bool     // nothing is started: addresses and directories are not tried
	dryRun    bool     // nor here, as they are a running process's
	conninfos []string // for the redactor
	problems  []error

	secretInArgs bool // a conninfo on the command line holds one
}

func newSettings(c *cli.Context) *settings {
	s := &settings{c: c, ran: invocationFrom(c.Context), look: c.Bool("print-config"), dryRun: c.Bool("dry-run")}
	s.values = values(c, s.ran.given, s.readConfig())
	if !s.has("log-level") {
		s.warnOfStrays()
	}
	return s
}

// err returns all problems, nil when there are none.
func (s *settings) err() error { return usageError(errors.Join(s.problems...)) }

// source names what the operator has to change: the flag, the variable of the
// environment, or the line in the file that the value came from.
func (s *settings) source(name string) string {
	if v := s.values[name]; v != nil {
		return v.source(name)
	}
	if _, ok := os.LookupEnv(envName(name)); ok && !s.ran.given[name] { // --config itself
		return envName(name)
	}
	return "--" + name
}

func (s *settings) problem(name, hint string, err error) {
	err = fmt.Errorf("%s: %w", s.source(name), err)
	if hint != "" {
		err = withHint(err, hint)
	}
	s.problems = append(s.problems, err)
}

// conninfo reads a connection string.
func (s *settings) conninfo(name string, required bool) string {
	value := s.c.String(name)
	switch {
	case value == "" && required:
		s.problems = append(s.problems, withHint(fmt.Errorf("--%s is needed", name),
			fmt.Sprintf("Set it, or %s: 'host=... port=... user=...' or a postgres:// URI.", envName(name))))
	case value != "":
		s.conninfos = append(s.conninfos, value)
		s.secretInArgs = s.secretInArgs || s.ran.given[name] && len(conninfo.Secrets(value)) > 0
		if err := conninfo.Check(value); err != nil {
			s.problem(name, "", err)
		}
	}
	return value
}

// listen reads addresses to listen on and tries whether they are free. What a
// service manager hands over counts too.
func (s *settings) listen(name string, required bool) []string {
	addrs := s.c.StringSlice(name)
	if len(addrs) == 0 && required && inheritedFDs() == 0 && !s.look {
		s.problems = append(s.problems, withHint(fmt.Errorf("--%s is needed", name),
			"For example --"+name+" 127.0.0.1:6432. Without a host, :6432, it listens on all addresses."))
	}
	for _, a := range addrs {
		if err := s.tryReplicationAddress(a); err != nil {
			s.problem(name, hintOf(err), err)
		}
	}
	return addrs
}

func (s *settings) tryReplicationAddress(address string) error {
	if s.look || s.dryRun {
		_, _, err := relay.ListenAddress(address)
		return err
	}
	l, err := relay.Listen(address)
	if err == nil {
		_ = l.Close() // it was only tried
	}
	return err
}

// tls reads the files of a certificate; nil without one.
func (s *settings) tls() *relay.ServerTLS {
	files := relay.TLSFiles{Cert: s.c.String("tls-cert"), Key: s.c.String("tls-key"), ClientCA: s.c.String("tls-client-ca")}
	switch {
	case files == relay.TLSFiles{}:
		return nil
	case files.Cert == "" || files.Key == "":
		s.problems = append(s.problems, withHint(errors.New("--tls-cert and --tls-key are needed together"),
			"The relay ends TLS with both, or passes it through without either."))
		return nil
	case s.c.Bool("refuse-tls"):
		s.problems = append(s.problems, errors.New("--refuse-tls has no meaning beside --tls-cert"))
	}
	loaded, err := relay.LoadServerTLS(files)
	for _, e := range problems(err) {
		s.problem("tls-cert", hintOf(e), e)
	}
	return loaded
}

func (s *settings) tryListen(name, address string) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		s.problem(name, "Write it as HOST:PORT, for example 127.0.0.1:6432.", fmt.Errorf("%q is not an address", address))
		return
	}
	if s.look || s.dryRun {
		return
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		s.problem(name, "Choose an address of this machine and a port that nobody listens on.", err)
		return
	}
	_ = l.Close() // it was only tried
}

// httpAddress reads the address of the status server; "" is off.
func (s *settings) httpAddress() string {
	address := s.c.String("http")
	if address != "" {
		s.tryListen("http", address)
	}
	return address
}

// httpAccess reads who may ask the status server; nil: everybody.
func (s *settings) httpAccess() *statusserver.Access {
	files := statusserver.AccessFiles{
		Token: s.c.String("http-token-file"), Cert: s.c.String("http-tls-cert"), Key: s.c.String("http-tls-key"),
	}
	switch {
	case files == statusserver.AccessFiles{}:
		return nil
	case s.c.String("http") == "":
		s.problems = append(s.problems, withHint(errors.New("--http-token-file, --http-tls-cert and --http-tls-key have no meaning without --http"),
			"Give --http the address to answer on: 127.0.0.1:8432."))
		return nil
	case (files.Cert == "") != (files.Key == ""):
		s.problems = append(s.problems, withHint(errors.New("--http-tls-cert and --http-tls-key are needed together"),
			"The status server speaks HTTPS with both, and HTTP without either."))
		return nil
	}
	access, err := statusserver.LoadAccess(files)
	for _, e := range problems(err) {
		s.problem("http", hintOf(e), e)
	}
	return access
}

func (s *settings) duration(name string, least, most time.Duration) time.Duration {
	d, err := time.ParseDuration(s.c.String(name))
	switch {
	case err != nil:
		s.problem(name, "Write a number and a unit: 100ms, 5s, 2m.", fmt.Errorf("%q is not a duration", s.c.String(name)))
	case d < least || d > most:
		s.problem(name, "", fmt.Errorf("%v is not within %v and %v", d, least, most))
	}
	return d
}

func (s *settings) number(name string, least, most int) int {
	n, err := strconv.Atoi(s.c.String(name))
	switch {
	case err != nil:
		s.problem(name, "", fmt.Errorf("%q is not a number", s.c.String(name)))
	case n < least || n > most:
		s.problem(name, "", fmt.Errorf("%d is not within %d and %d", n, least, most))
	}
	return n
}

func (s *settings) size(name string, least uint64) uint64 {
	n, err := parseSize(s.c.String(name))
	switch {
	case err != nil:
		s.problem(name, "Write a number and a unit: 512MiB, 1GiB.", err)
	case n < least:
		s.problem(name, "", fmt.Errorf("%q is less than %d bytes", s.c.String(name), least))
	}
	return n
}

func (s *settings) globs(name string) []string {
	list := s.c.StringSlice(name)
	for _, g := range list {
		if _, err := path.Match(g, ""); err != nil || g == "" {
			s.problem(name, "Use * for any text, ? for one character, [a-z] for one of a set.", fmt.Errorf("%q is not a pattern", g))
		}
	}
	return list
}

// client reads the flags of clientFlags.
func (s *settings) client(url string) *statusdoc.Client {
	client, err := statusdoc.NewClient(statusdoc.ClientFiles{Token: s.c.String(url + "-token-file"), CA: s.c.String(url + "-ca-file")})
	for _, e := range problems(err) {
		s.problem(url, hintOf(e), e)
	}
	return client
}

func (s *settings) url(name, value string) string {
	u, err := statusdoc.ParseURL(value)
	if err != nil {
		s.problem(name, "Write the address given to --http there, for example http://127.0.0.1:8432.", fmt.Errorf("%q: %w", withoutUser(value), err))
	}
	return u
}

// withoutUser is a URL without the user and the password that must not be in it.
func withoutUser(url string) string {
	if at := strings.LastIndexByte(url, '@'); at >= 0 {
		return "..." + url[at:]
	}
	return url
}

// stateDir reads the state directory, makes it if need be, and tries to write.
func (s *settings) stateDir() string {
	dir := s.c.String("state-dir")
	if dir == "" {
		s.problems = append(s.problems, withHint(errors.New("--state-dir is needed"),
			"The helper must remember which slots are its own: give it a directory that outlives restarts."))
		return ""
	}
	if s.look || s.dryRun {
		return dir
	}
	const hint = "Make it a directory that the user slotferry runs as can write to."
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.problem("state-dir", hint, err)
		return dir
	}
	f, err := os.CreateTemp(dir, ".try-*")
	if err != nil {
		s.problem("state-dir", hint, err)
		return dir
	}
	_, _ = f.Close(), os.Remove(f.Name()) // it was only tried
	return dir
}

// checkNodeName refuses what would not stay one word in a line of text.
func (s *settings) checkNodeName() {
	name := s.c.String("node-name")
	if name != strings.TrimSpace(name) || strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name) {
		s.problem("node-name", "Any text without spaces at its ends and control characters will do: the name of the standby's machine, or of its instance.",
			fmt.Errorf("%q is not a name", name))
	}
}

// host is the name of the machine: as it was given, where the command has such a
// setting, else as the operating system has it.
func (s *settings) host() (string, error) {
	if name := s.c.String("node-name"); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", withHint(fmt.Errorf("read the name of this machine: %w", err), "Give --node-name, where the command has it.")
	}
	return name, nil
}

func (s *settings) logLevel() zerolog.Level {
	switch text := strings.ToLower(s.c.String("log-level")); text {
	case "debug", "info", "warn", "error":
		level, err := zerolog.ParseLevel(text)
		if err == nil {
			return level
		}
	}
	s.problem("log-level", "", fmt.Errorf("%q is not debug, info, warn or error", s.c.String("log-level")))
	return zerolog.InfoLevel
}

// has reports whether the command has a flag.
func (s *settings) has(name string) bool {
	for _, f := range s.c.Command.Flags {
		if f.Names()[0] == name {
			return true
		}
	}
	return false
}
