// What a command lists: as an aligned table, as the elements of one JSON document, or as lines of JSON. Holds at most
// a page of it.
#pragma once

#include <string>
#include <vector>

#include "output/output.h"

namespace dqctl {

struct Column {
  std::string title;
  bool right = false;  // for numbers
};

// Must be printable(). On a terminal the widest are cut until a row fits.
struct Cell {
  std::string text{};
  Colour colour = Colour::plain;
};

class Listing {
 public:
  // list: the name of the field that holds the elements. head: the fields before it. Both for JSON documents only.
  Listing(Output& output, std::vector<Column> columns, std::string list, Object head = {});
  ~Listing();  // writes the rows that an exception left; a document is completed by Output::fail()
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

  void add(std::vector<Cell> row, const Object& object);

  // Writes what is held back now. A table's later rows keep the widths of those before, or widen them.
  void flush();

  // To be called at the end. tail: the fields after the list, for JSON documents only.
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
  bool begun_ = false;  // the titles, or the document
};

}  // namespace dqctl
