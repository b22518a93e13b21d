#pragma once

// A copy is a checkpoint in the memory of hosts. Each host has its folder, with the files of any checkpoint and the manifest of
// the whole. The files have only those elements of tensors that pieces beside them tell of. The rest are holes, which take no
// memory. A rank's piece is written last, so one that is there is complete.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/writer.h"

namespace lockstep::checkpoint {

/// Elements of a tensor: `rows` of `columns`, one after another or, as in a HeldRange, with a stride.
struct CopiedPart {
  std::string tensor;
  std::int64_t first = 0, rows = 1, columns = 0, stride = 0;
  std::uint64_t checksum = 0;  ///< the elements' share of the tensor's checksum
};

/// What one rank wrote.
struct Piece {
  int rank = 0, ranks = 1;  ///< ranks that wrote the copy
  std::string follows;      ///< mark_of() the run's last checkpoint when the copy was made
  std::vector<CopiedPart> parts;
};

/// Tells a checkpoint's content from any other.
std::string mark_of(const io::Path& checkpoint);

std::string piece_text(const Piece& piece);
/// Reads a piece's text. Throws UserError where it is damaged.
Piece parse_piece(std::string_view text, std::string_view path);
/// Writes a piece into a copy's folder, at once or not at all.
void write_piece(const io::Path& folder, const Piece& piece);
std::vector<io::Path> pieces_in(const io::Path& folder);

/// The files of a copy, open for the elements of pieces. Several threads may use them at once.
class CopyFiles {
 public:
  /// Throws UserError where the folder or the headers of its files are damaged.
  explicit CopyFiles(const io::Path& folder);

  const Manifest& manifest() const { return reader_.manifest(); }
  std::size_t bytes_of(const CopiedPart& part) const;
  /// Fills `bytes`, which stay the values of what is returned. Throws SystemError where the files have other elements than were
  /// written.
  HeldTensor read(const CopiedPart& part, std::span<std::byte> bytes) const;
  /// Writes the part by way of `bytes`. Throws SystemError where its elements are others than were written.
  void write(const CopiedPart& part, std::span<std::byte> bytes);

 private:
  HeldTensor hold(const CopiedPart& part, std::span<std::byte> bytes) const;
  void demand(const CopiedPart& part, std::uint64_t checksum) const;

  Reader reader_;
  std::vector<FileTable> tables_;
  std::vector<io::File> files_;
  std::vector<TensorFileWriter> writers_;
  struct Place {
    std::size_t file, index;
  };
  std::unordered_map<std::string_view, Place> places_;
};

}  // namespace lockstep::checkpoint
