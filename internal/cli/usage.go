package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Widths of help texts, in columns: for anything that is not a terminal, and
// the most that is comfortable to read.
const (
	plainWidth = 80
	maxWidth   = 120
)

// setUsageWidth wraps the flags' help texts to the width of the terminal.
func setUsageWidth(root *cobra.Command, stdout io.Writer) {
	width := plainWidth
	if f, ok := stdout.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			width = min(w, maxWidth)
		}
	}
	wrapped := fmt.Sprintf("FlagUsagesWrapped %d", width)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages", "Flags."+wrapped))
}
