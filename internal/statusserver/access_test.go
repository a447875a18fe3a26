package statusserver

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/testcert"
)

// writeToken replaces the file of a token.
func writeToken(t *testing.T, path, token string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func accessWithToken(t *testing.T, token string) *Access {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	writeToken(t, path, token)
	a, err := LoadAccess(AccessFiles{Token: path})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestToken tries what is no token on every path, and what is one.
func TestToken(t *testing.T) {
	const token = "correct-horse-battery"
	access := accessWithToken(t, token)
	r := run(t, Config{Document: everything, Access: access})
	ask := func(path string, change func(*http.Request)) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", r.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		change(req)
		return do(t, r.client, req)
	}
	header := func(value string) func(*http.Request) {
		return func(req *http.Request) { req.Header.Set("Authorization", value) }
	}
	for what, change := range map[string]func(*http.Request){
		"nothing":           func(*http.Request) {},
		"no scheme":         header(token),
		"an empty token":    header("Bearer "),
		"half a token":      header("Bearer " + token[:len(token)-1]),
		"more than a token": header("Bearer " + token + "x"),
		"another case":      header("Bearer " + strings.ToUpper(token)),
		"another scheme":    header("Digest " + token),
		"as the user":       func(req *http.Request) { req.SetBasicAuth(token, "") },
		"a wrong password":  func(req *http.Request) { req.SetBasicAuth("x", token+" ") },
	} {
		for _, path := range []string{"/", "/status", "/readyz", "/metrics", "/events", "/assets/page.js", "/nothing", "/livez/", "//livez", "/x/../livez"} {
			resp, body := ask(path, change)
			if resp.StatusCode != http.StatusUnauthorized || strings.Contains(body, token) || strings.Contains(body, "orders") {
				t.Errorf("%s with %s: %s\n%s", path, what, resp.Status, body)
			}
			if got := strings.Join(resp.Header.Values("WWW-Authenticate"), ", "); !strings.Contains(got, "Bearer") || !strings.Contains(got, "Basic") {
				t.Errorf("asks for %q", got)
			}
		}
		if resp, _ := ask("/livez", change); resp.StatusCode != http.StatusOK {
			t.Errorf("/livez with %s: %s", what, resp.Status)
		}
	}
	known := []func(*http.Request){
		header("Bearer " + token), header("bearer  " + token), func(req *http.Request) { req.SetBasicAuth("anybody", token) },
	}
	for i, change := range known {
		if resp, body := ask("/status", change); resp.StatusCode != http.StatusOK || !strings.Contains(body, "orders") {
			t.Errorf("way %d: %s", i, resp.Status)
		}
	}

	// A file that is no good changes nothing; a good one does, at once.
	writeToken(t, access.files.Token, "short")
	if err := access.Reload(); err == nil {
		t.Error("a token of five bytes is taken")
	}
	if resp, _ := ask("/status", known[0]); resp.StatusCode != http.StatusOK {
		t.Errorf("the old token: %s", resp.Status)
	}
	writeToken(t, access.files.Token, "another-horse-battery")
	if err := access.Reload(); err != nil {
		t.Fatal(err)
	}
	if resp, _ := ask("/status", known[0]); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("the old token is still taken: %s", resp.Status)
	}
	if resp, _ := ask("/status", header("Bearer another-horse-battery")); resp.StatusCode != http.StatusOK {
		t.Errorf("the new token: %s", resp.Status)
	}
}

// TestHTTPS also replaces the certificate while the server runs.
func TestHTTPS(t *testing.T) {
	dir := t.TempDir()
	issue := func() (files AccessFiles, roots *x509.CertPool) {
		t.Helper()
		authority, err := testcert.NewAuthority("root")
		if err != nil {
			t.Fatal(err)
		}
		pair, err := authority.Issue("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		files.Cert, files.Key, err = pair.Write(dir, "server")
		if err != nil {
			t.Fatal(err)
		}
		roots = x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(authority.PEM()))
		return files, roots
	}
	files, roots := issue()
	access, err := LoadAccess(files)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, Config{Document: everything, Access: access})
	url := "https://" + r.Addr().String()
	get := func(roots *x509.CertPool, http2 bool) (*http.Response, error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true, ForceAttemptHTTP2: http2}
		resp, err := (&http.Client{Transport: transport}).Get(url + "/status")
		if err == nil {
			resp.Body.Close()
		}
		return resp, err
	}
	for _, http2 := range []bool{false, true} {
		resp, err := get(roots, http2)
		if err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor == 2 != http2 {
			t.Errorf("HTTP/2 %v: %v, %v", http2, resp, err)
		}
	}
	if resp, err := r.client.Get(r.url + "/status"); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("plain text: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	_, other := issue()
	if _, err := get(roots, false); err != nil {
		t.Errorf("the old certificate is gone before it was reloaded: %v", err)
	}
	if err := access.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := get(other, false); err != nil {
		t.Errorf("the new certificate: %v", err)
	}
	if _, err := get(roots, false); err == nil {
		t.Error("the old certificate is still there")
	}
}
