// A list of rows: an aligned table, the elements of one JSON document, or lines of JSON. Buffers at most 1000 rows.
#pragma once

#include <string>
#include <vector>

#include "output/output.h"

namespace dqctl {

struct Column {
  std::string title;
  bool right = false;  // for numbers
};

// The text must be printable(). On a terminal the widest columns are cut until a row fits.
struct Cell {
  std::string text{};
  Colour colour = Colour::plain;
};

class Listing {
 public:
  // list: the name of the JSON field with the elements. head: the fields before it. Both for JSON documents only.
  Listing(Output& output, std::vector<Column> columns, std::string list, Object head = {});
  ~Listing();  // writes the rows that an exception left; Output::fail() completes a document
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

  void add(std::vector<Cell> row, const Object& object);

  // Writes the buffered rows. Later rows keep the widths of the columns, or widen them.
  void flush();

  // Ends the list; must be called. tail: the fields after the list, for JSON documents only.
  void end(const Object& tail = {});

 private:
  void begin_document();
  std::vector<std::size_t> fitting() const;
  void write_row(const std::vector<Cell>& row);

  Output& output_;
  std::vector<Column> columns_;
  std::string list_;
  Object head_;
  std::vector<std::vector<Cell>> rows_;
  std::vector<std::size_t> widths_;
  bool begun_ = false;  // the titles or the begin of the document are written
};

}  // namespace dqctl
