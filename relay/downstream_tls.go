package relay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/slotferry/slotferry/internal/secretfile"
)

// TLSFiles are PEM files, as PostgreSQL's ssl_cert_file, ssl_key_file and
// ssl_ca_file.
type TLSFiles struct {
	Cert string // certificate, with those of intermediate authorities behind it
	Key  string

	// ClientCA, if not empty, makes a certificate that it signed the condition
	// for every connection over TCP.
	ClientCA string
}

// ServerTLS is what a Relay ends the downstream's TLS with. It may be reloaded
// while relays use it: sessions that there are keep what they began with.
type ServerTLS struct {
	files TLSFiles
	now   atomic.Pointer[tls.Config]
}

// LoadServerTLS reads the files. Its error names all that is wrong with them.
func LoadServerTLS(files TLSFiles) (*ServerTLS, error) {
	t := &ServerTLS{files: files}
	return t, t.Reload()
}

// Reload reads the files again. After an error the old certificate stays.
func (t *ServerTLS) Reload() error {
	var errs []error
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{alpnPostgres}, DynamicRecordSizingDisabled: true,
	}
	cert, err := secretfile.KeyPair(t.files.Cert, t.files.Key)
	errs = append(errs, err)
	cfg.Certificates = []tls.Certificate{cert}
	if t.files.ClientCA != "" {
		cfg.ClientCAs = x509.NewCertPool()
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
		pem, err := os.ReadFile(t.files.ClientCA)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("load client certificate authorities: %w", err))
		case !cfg.ClientCAs.AppendCertsFromPEM(pem):
			errs = append(errs, withHint(fmt.Errorf("load client certificate authorities: no certificate in %s", t.files.ClientCA),
				"It is a PEM file of the authorities that sign clients' certificates."))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	t.now.Store(cfg)
	return nil
}

// acceptTLS ends the downstream's TLS here. in holds what was read already.
func (s *session) acceptTLS(ctx context.Context, in *inbox, deadline time.Time, direct bool) error {
	cfg := s.relay.cfg.TLS.now.Load()
	w := tlsWire(s.downstream, in.bytes(), func(c net.Conn) *tls.Conn { return tls.Server(c, cfg) })
	in.release()
	s.mu.Lock()
	s.downstream = w
	s.mu.Unlock()
	_ = w.conn.SetDeadline(deadline)
	if ctx.Err() != nil { // a nudge that came before the deadline was set
		return ctx.Err()
	}
	err := w.shake()
	_ = w.conn.SetDeadline(time.Time{})
	switch {
	case err != nil:
		return fmt.Errorf("accept TLS: %w", rootCause(err))
	case direct && w.tls.ConnectionState().NegotiatedProtocol != alpnPostgres:
		return errors.New("accept TLS: received direct SSL connection request without ALPN protocol negotiation extension")
	}
	return nil
}

// mustBeEncrypted refuses a session without the certificate that every client
// has to show.
func (s *session) mustBeEncrypted() error {
	t := s.relay.cfg.TLS
	if t == nil || t.files.ClientCA == "" || s.downstream.tls != nil {
		return nil
	}
	if _, local := s.downstream.conn.(*net.UnixConn); local {
		return nil
	}
	return &ending{
		code: codeInvalidAuthorization, message: "connection requires a valid client certificate",
		hint: "This relay was started with --tls-client-ca: connect with sslmode=require, sslcert and sslkey.",
		err:  errors.New("connection requires a valid client certificate"),
	}
}
