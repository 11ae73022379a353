package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
)

// ErrNotFound says that no object has that name.
var ErrNotFound = errors.New("object not found")

// ErrTooLarge says that an object is above Config.MaxBlob.
var ErrTooLarge = errors.New("object is too large")

// Blobs is an object store whose objects are named by the SHA-256 of their
// bytes in hex (no "sha256:", which keys can not hold).
type Blobs struct {
	objects jetstream.ObjectStore
	max     int64
}

// A put can fail under load with too many messages outstanding, and a get while
// another worker replaces equal bytes: the whole object is tried again.
const (
	tries      = 3
	retryDelay = 50 * time.Millisecond
)

// PutIfAbsent stores data under its hash unless it is there, and returns the
// hash.
func (b *Blobs) PutIfAbsent(ctx context.Context, data []byte) (string, error) {
	name := Hash(data)
	_, err := b.PutNamed(ctx, name, data)
	return name, err
}

// PutNamed stores data under the caller's name unless an object of that name is
// there, and says whether it was stored. Equal names must mean equal content.
func (b *Blobs) PutNamed(ctx context.Context, name string, data []byte) (stored bool, err error) {
	if int64(len(data)) > b.max {
		return false, fmt.Errorf("storing %d bytes (at most %d): %w", len(data), b.max, ErrTooLarge)
	}
	err = retry(ctx, func() error {
		_, err := b.objects.GetInfo(ctx, name)
		if err == nil || !errors.Is(err, jetstream.ErrObjectNotFound) {
			return err
		}
		_, err = b.objects.PutBytes(ctx, name, data)
		stored = err == nil
		return err
	})
	if err != nil {
		return false, fmt.Errorf("storing object %s: %w", name, err)
	}
	return stored, nil
}

// Has reports whether an object of that name is stored.
func (b *Blobs) Has(ctx context.Context, name string) (bool, error) {
	_, err := b.objects.GetInfo(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for object %s: %w", name, err)
	}
	return true, nil
}

// Get returns the bytes of an object, or ErrNotFound, or ErrTooLarge. The
// server's digest is checked; the caller checks the name where it must be the
// hash (Hash).
//
// Others write to the store too, and name and meta data become parts of subjects:
// a name that is blank or longer than 256 bytes finds nothing, nor does an object
// that is a link or whose chunks have no plain token. A subject above the server's
// control line would cost the worker its connection.
func (b *Blobs) Get(ctx context.Context, name string) ([]byte, error) {
	if name == "" || len(name) > maxName {
		return nil, fmt.Errorf("reading object %.64q: no object has a name of %d bytes: %w", name, len(name), ErrNotFound)
	}
	var data []byte
	err := retry(ctx, func() error {
		if err := b.readable(ctx, name); err != nil {
			return err
		}
		object, err := b.objects.Get(ctx, name)
		if errors.Is(err, jetstream.ErrObjectNotFound) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		defer func() { _ = object.Close() }()
		info, err := object.Info()
		if err != nil {
			return err
		}
		if info.Size > uint64(b.max) {
			return ErrTooLarge
		}
		buf := make([]byte, info.Size)
		if _, err := io.ReadFull(object, buf); err != nil {
			return err
		}
		data = buf
		return object.Error()
	})
	if err != nil {
		return nil, fmt.Errorf("reading object %s: %w", name, err)
	}
	return data, nil
}

// maxName bounds the name of an object that is read; those that we write have 64
// bytes.
const maxName = 256

// readable looks at an object's meta data before the client library acts on it.
func (b *Blobs) readable(ctx context.Context, name string) error {
	info, err := b.objects.GetInfo(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return ErrNotFound
	case err != nil:
		return err
	case info.Opts != nil && info.Opts.Link != nil, !subjects.ValidToken(info.NUID):
		return fmt.Errorf("it is a link, or its chunks are not to be found: %w", ErrNotFound)
	case info.Size > uint64(b.max):
		return ErrTooLarge
	}
	return nil
}

// Delete removes an object; absent ones are no error.
func (b *Blobs) Delete(ctx context.Context, name string) error {
	if err := b.objects.Delete(ctx, name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return fmt.Errorf("deleting object %s: %w", name, err)
	}
	return nil
}

// Object is one entry of List.
type Object struct {
	Name    string
	Size    uint64
	ModTime time.Time
}

// List returns the objects of the store.
func (b *Blobs) List(ctx context.Context) ([]Object, error) {
	infos, err := b.objects.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing objects: %w", err)
	}
	out := make([]Object, 0, len(infos))
	for _, i := range infos {
		out = append(out, Object{i.Name, i.Size, i.ModTime})
	}
	return out, nil
}

// Hash is the name that PutIfAbsent gives to data.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func retry(ctx context.Context, do func() error) error {
	for attempt := 1; ; attempt++ {
		err := do()
		if err == nil || attempt == tries || ctx.Err() != nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrTooLarge) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(attempt) * retryDelay):
		}
	}
}
