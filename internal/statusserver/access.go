package statusserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/slotferry/slotferry/internal/secretfile"
)

// AccessFiles say who may ask, and over what. Empty names are off.
type AccessFiles struct {
	Token string // who asks must know what is in it

	// Cert and Key are PEM files, together or not at all.
	Cert, Key string
}

// Access is what AccessFiles hold. It may be reloaded while a server uses it:
// the next request is judged by the new token, the next connection gets the new
// certificate.
type Access struct {
	files AccessFiles
	token atomic.Pointer[[sha256.Size]byte] // of the token; nil: none is needed
	cert  atomic.Pointer[tls.Certificate]
}

// LoadAccess reads the files. Its error names all that is wrong with them.
func LoadAccess(files AccessFiles) (*Access, error) {
	a := &Access{files: files}
	return a, a.Reload()
}

// Reload reads the files again. After an error all is as it was.
func (a *Access) Reload() error {
	take, err := a.Read()
	if err == nil {
		take()
	}
	return err
}

// Read reads the files and changes nothing yet: what it returns does.
func (a *Access) Read() (take func(), err error) {
	var errs []error
	var digest *[sha256.Size]byte
	if a.files.Token != "" {
		token, err := secretfile.Token(a.files.Token)
		sum := sha256.Sum256([]byte(token))
		digest, errs = &sum, append(errs, err)
	}
	var cert *tls.Certificate
	if a.files.Cert != "" {
		pair, err := secretfile.KeyPair(a.files.Cert, a.files.Key)
		cert, errs = &pair, append(errs, err)
	}
	return func() {
		a.token.Store(digest)
		a.cert.Store(cert)
	}, errors.Join(errs...)
}

// Token reports whether who asks must know a token.
func (a *Access) Token() bool { return a != nil && a.files.Token != "" }

// TLS reports whether the server speaks TLS.
func (a *Access) TLS() bool { return a != nil && a.files.Cert != "" }

// config is for a server that speaks TLS.
func (a *Access) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.cert.Load(), nil },
	}
}

// guard lets only those in who know the token.
func (a *Access) guard(next http.Handler) http.Handler {
	if !a.Token() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/livez" && !a.knows(r) {
			// A browser asks for a user and a password when it hears of Basic, and
			// sends them with everything the page fetches.
			w.Header().Add("WWW-Authenticate", `Bearer realm="slotferry"`)
			w.Header().Add("WWW-Authenticate", `Basic realm="slotferry: any user, the token as password", charset="UTF-8"`)
			writeText(w, http.StatusUnauthorized, "This address needs the token that its --http-token-file holds:\n"+
				"Authorization: Bearer TOKEN; or, in a browser, any user and the token as password.\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// knows compares digests, in a time that does not depend on them: of a token that
// is wrong nothing can be learned but that.
func (a *Access) knows(r *http.Request) bool {
	_, given, basic := r.BasicAuth()
	if !basic {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return false
		}
		given = strings.TrimSpace(token)
	}
	sum, want := sha256.Sum256([]byte(given)), a.token.Load()
	return subtle.ConstantTimeCompare(sum[:], want[:]) == 1
}
