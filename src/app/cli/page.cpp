#include "app/cli/page.h"

#include <fmt/format.h>

namespace lockstep::app {
namespace {

constexpr std::string_view shared_style = R"(
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .2rem; }
p { margin: .2rem 0 .8rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .25rem .7rem .25rem 0; }
th { font-weight: 600; border-bottom: 2px solid var(--line); } td { border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font-size: .9em; } ul { margin: .2rem 0; padding-left: 1.2rem; }
)";

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string html_page(std::string_view title, std::string_view style, std::string_view body) {
  return fmt::format(
      "{}<meta name=\"viewport\" content=\"width=device-width\"><title>{}</title><style>{}{}</style></head><body>\n{}"
      "</body></html>\n",
      page_start, escaped(title), shared_style, style, body);
}

}  // namespace lockstep::app
