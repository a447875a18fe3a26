// Package testcert makes certificates for tests and benchmarks of TLS: an
// authority that lives as long as the process, and what it signs.
package testcert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  string
	next int64
}

// Pair is a certificate and its key in PEM.
type Pair struct{ Cert, Key string }

// NewAuthority makes an authority whose certificate it signs itself.
func NewAuthority(name string) (*Authority, error) {
	a := &Authority{next: 2}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, key, err := sign(template, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make authority %s: %w", name, err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("make authority %s: %w", name, err)
	}
	a.key, a.pem = key, encode("CERTIFICATE", der)
	return a, nil
}

// PEM returns the authority's own certificate.
func (a *Authority) PEM() string { return a.pem }

// Issue makes a certificate for a server with these names and addresses, which
// also serves a client of the first name.
func (a *Authority) Issue(names ...string) (Pair, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: names[0]},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	a.next++
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, key, err := sign(template, a.cert, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate for %s: %w", names[0], err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate for %s: %w", names[0], err)
	}
	return Pair{Cert: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", pkcs8)}, nil
}

// sign makes a key and a certificate for it. Without a parent it signs itself.
func sign(template, parent *x509.Certificate, by crypto.Signer) (der []byte, key crypto.Signer, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, by = template, key
	}
	der, err = x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	return der, key, err
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// Write writes NAME.crt and NAME.key into a directory and returns their paths.
func (p Pair) Write(dir, name string) (cert, key string, err error) {
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if err := os.WriteFile(cert, []byte(p.Cert), 0o600); err != nil {
		return "", "", fmt.Errorf("write certificate: %w", err)
	}
	if err := os.WriteFile(key, []byte(p.Key), 0o600); err != nil {
		return "", "", fmt.Errorf("write key: %w", err)
	}
	return cert, key, nil
}
