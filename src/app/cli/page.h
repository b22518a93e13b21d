#pragma once

// HTML pages that need no other file and follow the reader's light or dark colours.

#include <string>
#include <string_view>

namespace lockstep::app {

/// What every page begins with.
inline constexpr std::string_view page_start =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"generator\" content=\"lockstep\">";

/// Text as it stands between tags and in attributes.
std::string escaped(std::string_view text);
/// `style`: rules beside those that all pages share (text, tables, `td.n` for numbers, `code`). `body` is HTML.
std::string html_page(std::string_view title, std::string_view style, std::string_view body);

}  // namespace lockstep::app
