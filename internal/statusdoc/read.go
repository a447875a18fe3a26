package statusdoc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/slotferry/slotferry/internal/secretfile"
)

// maxDocument bounds what is read of an answer: 10,000 slots take 6 MB.
const maxDocument = 64 << 20

// Client reads documents.
type Client struct {
	token string // "": none
	http  *http.Client
}

// ClientFiles are what a Client needs for a server that does not let everybody
// in. Empty names are off.
type ClientFiles struct {
	Token string // holds the token that the server asks for
	CA    string // PEM file of the authorities that sign its certificate; "": those of the system
}

// NewClient reads the files. Its error names all that is wrong with them.
func NewClient(files ClientFiles) (*Client, error) {
	var errs []error
	var token string
	if files.Token != "" {
		var err error
		token, err = secretfile.Token(files.Token)
		errs = append(errs, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if files.CA != "" {
		pem, err := os.ReadFile(files.CA)
		config.RootCAs = x509.NewCertPool()
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("load certificate authorities: %w", err))
		case !config.RootCAs.AppendCertsFromPEM(pem):
			errs = append(errs, fmt.Errorf("load certificate authorities: no certificate in %s", files.CA))
		}
	}
	// A status server answers at once or not at all, and is never behind a proxy or
	// a redirect: the token goes to nobody else.
	return &Client{token: token, http: &http.Client{
		Timeout:       5 * time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10, TLSClientConfig: config},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, errors.Join(errs...)
}

// RefusedError means that the server wants a token, or another one.
type RefusedError struct{ URL string }

// Error names the address.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("read status from %s: it does not let us in without the right token", e.URL)
}

// Hint returns a sentence that says what to do.
func (e *RefusedError) Hint() string {
	return "Give --url-token-file (a relay: --helper-url-token-file) what its --http-token-file holds."
}

// UnreachableError means that nobody answered.
type UnreachableError struct {
	URL string
	Err error
}

// Error names the address and the cause.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("read status from %s: %v", e.URL, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Hint returns a sentence that says what to do.
func (e *UnreachableError) Hint() string {
	return "Check that slotferry runs there with --http, and on which address."
}

// ParseURL completes the address of a status server: a scheme and a path may be
// left out. One with a password in it is refused, since addresses are shown. An error
// does not repeat the text.
func ParseURL(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", errors.New("not a valid URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("its scheme is %q, not http or https", u.Scheme)
	case u.User != nil:
		return "", errors.New("it has a user or a password in it: a secret belongs into a token file")
	case u.Host == "":
		return "", errors.New("it has no host")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/status"
	}
	return u.String(), nil
}

// Read gets a document from a URL that ParseURL returned. Its error is an
// *UnreachableError when nobody answered.
func (c *Client) Read(ctx context.Context, url string) (*Document, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("read status from %s: %w", url, err)
	}
	req.Header.Set("Accept", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &UnreachableError{URL: url, Err: cause(err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return nil, &UnreachableError{URL: url, Err: cause(err)}
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, &RefusedError{url}
	default:
		return nil, fmt.Errorf("read status from %s: answered %s", url, resp.Status)
	}
	var d Document
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, fmt.Errorf("read status from %s: not a status document: %w", url, err)
	}
	if d.Kind != Kind {
		return nil, fmt.Errorf("read status from %s: its kind is %q, not %q", url, d.Kind, Kind)
	}
	return &d, nil
}

// cause takes the URL out of an error that names it already.
func cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
