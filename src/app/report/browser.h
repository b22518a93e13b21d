#pragma once

// A page, shown to the person who asked for it.

#include "io/file.h"

namespace lockstep::app {

/// A new empty file for a page without --html, in the system's folder for temporary files.
io::Path temporary_page();
/// Opens the page with the first command of $BROWSER that is there, or with xdg-open, and waits for it. The commands of $BROWSER
/// have colons between them; %s stands for the file. Throws UserError, which says how to open the page, where there is none or it
/// fails.
void open_page(const io::Path& page);

}  // namespace lockstep::app
