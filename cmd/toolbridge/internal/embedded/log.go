package embedded

import (
	"fmt"
	"log/slog"
)

// logger hands the server's log to slog. Its notices are debug lines here: they
// tell of every part that starts.
type logger struct {
	log   *slog.Logger
	fatal chan<- string // the first fatal message; the server does not exit
}

// Noticef logs at debug level.
func (l *logger) Noticef(format string, v ...any) { l.debug(format, v) }

// Debugf logs at debug level.
func (l *logger) Debugf(format string, v ...any) { l.debug(format, v) }

// Tracef logs at debug level.
func (l *logger) Tracef(format string, v ...any) { l.debug(format, v) }

func (l *logger) debug(format string, v []any) { l.log.Debug("nats: " + fmt.Sprintf(format, v...)) }

// Warnf logs a warning.
func (l *logger) Warnf(format string, v ...any) { l.log.Warn("nats: " + fmt.Sprintf(format, v...)) }

// Errorf logs an error.
func (l *logger) Errorf(format string, v ...any) { l.log.Error("nats: " + fmt.Sprintf(format, v...)) }

// Fatalf keeps the message for the one who starts the server.
func (l *logger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.log.Error("nats: " + text)
	select {
	case l.fatal <- text:
	default:
	}
}
