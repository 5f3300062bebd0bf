package show

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// Screen is where the output goes: a terminal, or anything else.
type Screen struct {
	out  io.Writer // takes colours out where they are not wanted
	file *os.File  // the terminal, or nil
	// fixed is the size in tests.
	fixedWidth, fixedHeight int
}

// NewScreen looks at out. Colours are used on terminals only, and not where
// NO_COLOR is set or TERM says that there are none; CLICOLOR_FORCE=1 wants them
// everywhere.
func NewScreen(out io.Writer) *Screen {
	s := &Screen{out: colorprofile.NewWriter(out, os.Environ())}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.file = f
	}
	return s
}

// terminal tells whether the output can be drawn over.
func (s *Screen) terminal() bool { return s.file != nil || s.fixedHeight > 0 }

// size returns the columns and rows; zero columns are no limit. It is asked
// each time, for terminals change.
func (s *Screen) size() (width, height int) {
	if s.fixedWidth > 0 {
		return s.fixedWidth, s.fixedHeight
	}
	if s.file == nil {
		return 0, 0
	}
	width, height, err := term.GetSize(int(s.file.Fd()))
	if err != nil || width <= 0 {
		return 80, 24
	}
	return width, height
}

// print writes text that is complete lines.
func (s *Screen) print(text string) error {
	if _, err := io.WriteString(s.out, text); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// redraw replaces all that the terminal shows. It writes over the old text and
// erases what is left of it, line by line, because clearing first flickers.
func (s *Screen) redraw(text string, width int) error {
	var b strings.Builder
	b.WriteString(ansi.CursorHomePosition)
	for line := range strings.Lines(text) {
		// A line that wraps would push the others down.
		b.WriteString(ansi.Truncate(strings.TrimSuffix(line, "\n"), width, ellipsis))
		b.WriteString(ansi.EraseLineRight + "\n")
	}
	b.WriteString(ansi.EraseScreenBelow)
	return s.print(b.String())
}

// Colours, by what they say and not by what they look like.
var (
	styleHead = ansi.NewStyle().Bold()
	styleGood = ansi.NewStyle().ForegroundColor(ansi.Green)
	styleBad  = ansi.NewStyle().ForegroundColor(ansi.Red)
	styleWarn = ansi.NewStyle().ForegroundColor(ansi.Yellow)
	styleDim  = ansi.NewStyle().Faint()
)
