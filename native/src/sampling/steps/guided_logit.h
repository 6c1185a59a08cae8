// guided_logit: a logit moved away from the one after a negative prompt.
#pragma once

#include "outrider/device/host_device.h"

namespace outrider {

/// scale * (log p - log q) + log q, where p is the token's probability after the prompt and q that after
/// the negative one: classifier-free guidance (Sanchez et al., "Stay on topic with Classifier-Free Guidance",
/// arXiv 2306.17806, equation 7). NaN wherever either row has a logit that is NaN or plus infinity, or where
/// q is 0.  # norms: the logs of the rows' sums of exponentials
OUTRIDER_HOST_DEVICE inline float guided_logit(double scale, float logit, double norm, float negative_logit,
                                               double negative_norm) {
    const double own = logit - norm;
    const double negative = negative_logit - negative_norm;
    return static_cast<float>(scale * (own - negative) + negative);
}

}  // namespace outrider
