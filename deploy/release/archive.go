package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// file is one entry of an archive.
type file struct {
	path string // on disk
	name string // in the archive, below the folder's own name
	mode fs.FileMode
	size int64
}

// files are those below a folder, in the order of their names.
func files(dir string) ([]file, error) {
	base := filepath.Base(dir)
	var all []file
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { //nolint:gosec // who runs a build names its files
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		all = append(all, file{path, base + "/" + filepath.ToSlash(rel), mode, info.Size()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	return all, nil
}

// archive writes a folder as .tar.gz, .tgz or .zip, with at as the time of every
// entry and nobody as its owner.
func archive(w io.Writer, name, dir string, at time.Time) error {
	all, err := files(dir)
	if err != nil {
		return err
	}
	if strings.HasSuffix(name, ".zip") {
		return writeZip(w, all, at)
	}
	return writeTar(w, all, at)
}

func writeTar(w io.Writer, all []file, at time.Time) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, f := range all {
		err := t.WriteHeader(&tar.Header{Name: f.name, Mode: int64(f.mode), Size: f.size, ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR})
		if err == nil {
			err = copyFile(t, f.path)
		}
		if err != nil {
			return fmt.Errorf("packing %s: %w", f.name, err)
		}
	}
	if err := t.Close(); err != nil {
		return fmt.Errorf("packing: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("packing: %w", err)
	}
	return nil
}

func writeZip(w io.Writer, all []file, at time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range all {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		to, err := z.CreateHeader(h)
		if err == nil {
			err = copyFile(to, f.path)
		}
		if err != nil {
			return fmt.Errorf("packing %s: %w", f.name, err)
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("packing: %w", err)
	}
	return nil
}

func copyFile(w io.Writer, path string) error {
	f, err := os.Open(path) //nolint:gosec // who runs a build names its files
	if err != nil {
		return err //nolint:wrapcheck // names the file itself
	}
	defer func() { _ = f.Close() }()
	_, err = io.Copy(w, f)
	return err //nolint:wrapcheck // the caller names the file
}

// sums writes the SHA-256 of every file of a folder in the form of sha256sum.
func sums(out, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the folder: %w", err)
	}
	var b strings.Builder
	for _, e := range entries {
		if e.IsDir() || e.Name() == filepath.Base(out) || !strings.HasPrefix(e.Name(), "toolbridge-") {
			continue
		}
		h := sha256.New()
		if err := copyFile(h, filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("reading %s: %w", e.Name(), err)
		}
		fmt.Fprintf(&b, "%s  %s\n", hex.EncodeToString(h.Sum(nil)), e.Name())
	}
	return create(out, func(w io.Writer) error {
		_, err := io.WriteString(w, b.String())
		return err //nolint:wrapcheck // create names the file
	})
}
