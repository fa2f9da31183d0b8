#include "troupe/slices_mark.h"

namespace troupe {

bool IsSlices(NodeOut x) {
  return x.valid() && x.index == 0 && x.node->op().name == "UnsortedSegmentSum" &&
         x.node->Attr<bool>(kSlicesAttr).value_or(false);
}

}  // namespace troupe
