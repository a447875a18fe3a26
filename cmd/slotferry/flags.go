package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// Every flag is text to urfave/cli, and parsed by settings: only so are all
// problems found at once, and named by where they came from.

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// text is a flag with one value. The first word of usage in back quotes names
// the value.
func text(name, value, usage string) *cli.StringFlag {
	return &cli.StringFlag{Name: name, Value: value, Usage: usage, EnvVars: []string{envName(name)}}
}

// texts is a flag that may be repeated. A comma separates values too.
func texts(name, usage string) *cli.StringSliceFlag {
	return &cli.StringSliceFlag{Name: name, Usage: usage, EnvVars: []string{envName(name)}}
}

func yes(name, usage string) *cli.BoolFlag {
	return &cli.BoolFlag{Name: name, Usage: usage, EnvVars: []string{envName(name)}}
}

func join(lists ...[]cli.Flag) []cli.Flag {
	var all []cli.Flag
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// clientFlags say how a process is asked by the URL of another flag.
func clientFlags(url string) []cli.Flag {
	return []cli.Flag{
		text(url+"-token-file", "", "`FILE` with the token that the process in --"+url+" asks for"),
		text(url+"-ca-file", "", "`FILE` (PEM) of the authorities that sign its certificate. Default: those of the system"),
	}
}

// processFlags are those of every command that keeps running.
func processFlags() []cli.Flag {
	return []cli.Flag{
		text("http", "", "answer /livez, /readyz, /status, /metrics and a page for people on `HOST:PORT`. On other than a loopback address give it a token and TLS, too. Default: off"),
		text("http-token-file", "", "let only those see more than /livez who know the token in `FILE`; read again on SIGHUP. Default: everybody who reaches the address"),
		text("http-tls-cert", "", "speak HTTPS, with the certificate in `FILE` (PEM); read again on SIGHUP"),
		text("http-tls-key", "", "`FILE` of that certificate's private key"),
		text("log-level", "info", "log from `LEVEL` on: debug, info, warn or error"),
	}
}

// proxyFlags are those of every command that listens for replication
// connections.
func proxyFlags() []cli.Flag {
	return []cli.Flag{
		text("tls-cert", "", "end TLS here, with the certificate in `FILE` (PEM); read again on SIGHUP. Default: TLS is passed through unread, and such sessions carry no slot messages"),
		text("tls-key", "", "`FILE` of the certificate's private key"),
		text("tls-client-ca", "", "let only clients in, over TCP, that show a certificate signed by an authority in `FILE`"),
		yes("refuse-tls", "answer a request for TLS or GSS encryption with no, so that the session can be read; without it a session that the upstream agrees to encrypt is passed through unread, and carries no slot messages"),
	}
}

// slotSourceFlags say which slots are read, and how often.
func slotSourceFlags() []cli.Flag {
	return []cli.Flag{
		text("interval", "1s", "send slot state at least every `DURATION`, also when nothing has changed; a change is sent at once. The helper takes five of these without news for a dead upstream. 100ms to 10s"),
		text("poll-interval", "80ms", "look for a change at least every `DURATION`, not longer than --interval, and send positions that move at most that often; while looks take less than 2 % of the time there are more of them, down to one every 20 ms"),
		texts("slot", "ferry slots whose name matches `GLOB` (* ? [a-z]); repeatable. Default: all logical slots"),
		texts("exclude-slot", "but not those whose name matches `GLOB`; repeatable"),
		texts("database", "ferry slots of databases that match `GLOB`; repeatable. Default: all"),
		yes("include-table-sync", "also ferry the slots of a subscription's initial table copy"),
	}
}

// standbyFlags are those of every command that keeps slots on a standby.
func standbyFlags() []cli.Flag {
	return []cli.Flag{
		text("standby", "", "`CONNINFO` of the standby; the role needs LOGIN, REPLICATION and pg_monitor, and may connect to every slot's database"),
		text("state-dir", "", "`DIRECTORY` where the helper remembers which slots are its own; one for each standby, kept across restarts"),
		text("node-name", "", "`NAME` of the machine that the standby is on, the same after every restart: only so the helper knows its slots again. Default: the host name, which is another one for each container"),
		text("max-sessions", "4", "use at most `N` sessions on the standby to create and advance slots, beside two of the helper's own"),
		text("advance-interval", "5s", "advance a slot at most every `DURATION`; a longer one saves reading WAL, and lets a subscriber get more a second time after failover"),
		yes("restore-failover", "after a promotion set failover on the slots whose upstream slot had it (17 and newer): a slot made here never has it by itself"),
		text("retain-budget", "1GiB", "advance a slot that keeps more than `SIZE` of WAL on the standby without regard to what that costs; below it advances take 5 % of a core"),
		text("anchor-budget", "1GiB", "keep at most `SIZE` of WAL on the standby for slots whose subscribers lag too far to be created yet"),
	}
}
