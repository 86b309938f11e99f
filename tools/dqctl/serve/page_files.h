// The files of the page and the description of the interface, compiled in by scripts/cmake/embed_page.cmake.
#pragma once

#include <string_view>

namespace dqctl::page_files {

extern const std::string_view index_html, style_css, elements_js, page_js, openapi_json;

}  // namespace dqctl::page_files
