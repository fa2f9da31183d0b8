// Our schemas against TensorFlow's: the same names, numbers and types, as recorded in
// definitions/proto_fields.txt (by record/proto_fields.py).
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>
#include <sstream>

#include <google/protobuf/descriptor.h>

#include "tests/cases/case_file.h"
#include "troupe/proto/checkpoint_state.pb.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/device_attributes.pb.h"
#include "troupe/proto/event.pb.h"
#include "troupe/proto/example.pb.h"
#include "troupe/proto/meta_graph.pb.h"
#include "troupe/proto/saved_model.pb.h"
#include "troupe/proto/saved_tensor_slice.pb.h"
#include "troupe/proto/tensor_bundle.pb.h"
#include "troupe/proto/variable.pb.h"
#include "troupe/strings.h"

namespace troupe {
namespace fields_test {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using Table = std::map<std::string, std::set<std::string>>;  // message or enum -> fields or values

std::string Short(const std::string& full_name) {
  const std::string package = "troupe.proto.";
  return full_name.starts_with(package) ? full_name.substr(package.size()) : full_name;
}

void Describe(const EnumDescriptor& e, Table* table) {
  std::set<std::string>& values = (*table)[Short(e.full_name())];
  for (int i = 0; i < e.value_count(); ++i) values.insert(StrCat(e.value(i)->name(), "=", e.value(i)->number()));
}

void Describe(const Descriptor& m, Table* table) {
  std::set<std::string>& fields = (*table)[Short(m.full_name())];
  for (int i = 0; i < m.field_count(); ++i) {
    const FieldDescriptor& f = *m.field(i);
    const std::string type = f.message_type() ? Short(f.message_type()->full_name())
                             : f.enum_type()  ? Short(f.enum_type()->full_name())
                                              : std::string(f.type_name());
    fields.insert(StrCat(f.name(), "=", f.number(), ":", f.is_repeated() ? "*" : "", type));
    if (f.is_packable()) BOOST_TEST(f.is_packed(), Short(m.full_name()) << "." << f.name());
  }
  for (int i = 0; i < m.nested_type_count(); ++i) Describe(*m.nested_type(i), table);
  for (int i = 0; i < m.enum_type_count(); ++i) Describe(*m.enum_type(i), table);
}

void Describe(const FileDescriptor& f, Table* table, std::set<const FileDescriptor*>* seen) {
  if (!seen->insert(&f).second || f.package() != "troupe.proto") return;
  for (int i = 0; i < f.dependency_count(); ++i) Describe(*f.dependency(i), table, seen);
  for (int i = 0; i < f.message_type_count(); ++i) Describe(*f.message_type(i), table);
  for (int i = 0; i < f.enum_type_count(); ++i) Describe(*f.enum_type(i), table);
}

Table Ours() {
  Table table;
  std::set<const FileDescriptor*> seen;
  for (const Descriptor* d :
       {proto::CheckpointState::descriptor(), proto::ConfigProto::descriptor(), proto::DeviceAttributes::descriptor(),
        proto::Event::descriptor(), proto::Example::descriptor(), proto::SavedModel::descriptor(),
        proto::BundleEntryProto::descriptor(), proto::SavedTensorSlices::descriptor(),
        proto::VariableDef::descriptor()}) {
    Describe(*d->file(), &table, &seen);
  }
  return table;
}

// What TensorFlow has and we leave out, because it belongs to parts of it that do not exist here.
const std::set<std::string> kLeftOut = {
    "ConfigProto.Experimental.coordination_config=23:CoordinationServiceConfig",
    "GraphOptions.rewrite_options=10:RewriterConfig",
    "MetaGraphDef.object_graph_def=7:SavedObjectGraph",
    "RunOptions.debug_options=6:DebugOptions",
    "TensorInfo.composite_tensor=5:TensorInfo.CompositeTensor",
};

// What we have and TensorFlow has not: messages of our own, and the fields that hold them, whose
// numbers are far from TensorFlow's.
const std::set<std::string> kOwnMessages = {"StepTrace", "StepTrace.Device", "StepTrace.Process", "StepTrace.Run"};
const std::set<std::string> kOwnFields = {"RunMetadata.step_trace=1001:StepTrace"};

BOOST_AUTO_TEST_CASE(fields_have_the_names_numbers_and_types_of_tensorflow) {
  Table theirs;
  for (const auto& line : test::ReadLines("definitions/proto_fields.txt")) {
    std::istringstream words(line.text);
    std::string name, word;
    words >> name;
    std::set<std::string>& fields = theirs[name];
    while (words >> word) fields.insert(word);
  }
  const Table ours = Ours();
  BOOST_TEST(ours.size() > 100u);
  std::set<std::string> left_out;
  for (const auto& [name, fields] : ours) {
    if (kOwnMessages.contains(name)) continue;
    const auto it = theirs.find(name);
    BOOST_TEST_REQUIRE((it != theirs.end()), name << " is not in proto_fields.txt");
    for (const std::string& f : fields) {
      const bool known = it->second.contains(f) || kOwnFields.contains(name + "." + f);
      BOOST_TEST(known, name << "." << f << " is not TensorFlow's");
    }
    for (const std::string& f : it->second) {
      if (!fields.contains(f)) left_out.insert(name + "." + f);
    }
  }
  BOOST_TEST(left_out == kLeftOut, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(print_the_names_for_the_recorder) {
  std::string names;
  for (const auto& [name, fields] : Ours()) {
    if (!kOwnMessages.contains(name)) StrAppend(&names, " ", name);
  }
  BOOST_TEST_MESSAGE("proto_fields.py" << names);
}

}  // namespace fields_test
}  // namespace troupe
