#pragma once

// Parts of the program that are linked with libraries which a machine may lack: shared objects that lie beside it. One is opened
// when it is needed, so that a machine without its library runs everything else.

#include <string>
#include <string_view>

namespace lockstep::io {

struct Plugin {
  void* object = nullptr;  ///< the interface that the plugin hands over; lives as long as the process
  std::string problem;     ///< why there is no object
  bool loads = true;       ///< false: the file is there, but a library that it is linked with is not
};

/// Opens lockstep-NAME.so: in the folder that the environment's LOCKSTEP_PLUGINS names or, without it, beside the program or in
/// ../lib/lockstep from there.
Plugin open_plugin(std::string_view name);

}  // namespace lockstep::io
