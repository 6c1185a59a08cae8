// DeviceError: a device is missing, has too little memory, or has failed.
#pragma once

#include <stdexcept>

namespace outrider {

class DeviceError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace outrider
