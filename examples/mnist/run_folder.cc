#include "run_folder.h"

#include "troupe/checkpoint.h"
#include "troupe/files.h"

namespace mnist {
namespace {

using troupe::Tensor;
using troupe::train::SessionEvent;

// In a checkpoint: counts and numbers of Progress.
constexpr char kCounts[] = "mnist/progress/counts", kNumbers[] = "mnist/progress/numbers";

}  // namespace

absl::StatusOr<bool> RunFolder::GoOn(troupe::Session& session, Batches* batches, Progress* progress) {
  const absl::StatusOr<std::string> newest = troupe::train::LatestCheckpoint(folder_);
  // A list that names a checkpoint which is not there is no fresh start.
  if (absl::IsNotFound(newest.status()) && !troupe::files::Exists(troupe::files::Join(folder_, "checkpoint")))
    return false;
  if (!newest.ok()) return newest.status();
  TROUPE_ASSIGN_OR_RETURN(const auto reader, troupe::CheckpointReader::Open(*newest));
  TROUPE_ASSIGN_OR_RETURN(const Tensor counts, reader->Read(kCounts));
  TROUPE_ASSIGN_OR_RETURN(const Tensor numbers, reader->Read(kNumbers));
  if (counts.dtype() != troupe::DType::kInt64 || counts.num_elements() != 3 ||
      numbers.dtype() != troupe::DType::kDouble || numbers.num_elements() != 4) {
    return troupe::InvalidArgument(*newest, ": it was not written by this program");
  }
  TROUPE_RETURN_IF_ERROR(saver_.Restore(session, *newest));
  TROUPE_RETURN_IF_ERROR(batches->SetPosition(*reader));
  const int64_t* const c = counts.data<int64_t>();
  const double* const n = numbers.data<double>();
  *progress = {
      .step = c[0], .images = c[1], .best_step = c[2], .loss = n[0], .accuracy = n[1], .best = n[2], .test_loss = n[3]};
  saved_ = progress->step;
  return true;
}

absl::Status RunFolder::Open(int64_t step) {
  TROUPE_ASSIGN_OR_RETURN(events_, troupe::train::FileWriter::Create(folder_));
  TROUPE_RETURN_IF_ERROR(events_->AddGraph(*graph_));
  // What a killed run wrote of later steps is void.
  return events_->AddSessionLog(SessionEvent::kStart, step + 1);
}

absl::Status RunFolder::Save(troupe::Session& session, const Batches& batches, const Progress& progress) {
  if (progress.step == saved_) return absl::OkStatus();
  troupe::train::SaveOptions options{.global_step = progress.step, .graph = graph_};
  options.extra = batches.Position();
  options.extra.emplace_back(kCounts, Tensor::Vector<int64_t>({progress.step, progress.images, progress.best_step}));
  options.extra.emplace_back(
      kNumbers, Tensor::Vector<double>({progress.loss, progress.accuracy, progress.best, progress.test_loss}));
  TROUPE_ASSIGN_OR_RETURN(const std::string path, saver_.Save(session, troupe::files::Join(folder_, "model"), options));
  saved_ = progress.step;
  TROUPE_RETURN_IF_ERROR(events_->AddSessionLog(SessionEvent::kCheckpoint, progress.step, path));
  return events_->Flush();
}

absl::Status RunFolder::Report(const Progress& progress) {
  TROUPE_RETURN_IF_ERROR(events_->AddScalar("loss", static_cast<float>(progress.loss), progress.step));
  TROUPE_RETURN_IF_ERROR(events_->AddScalar("test/accuracy", static_cast<float>(progress.accuracy), progress.step));
  return events_->AddScalar("test/loss", static_cast<float>(progress.test_loss), progress.step);
}

absl::Status RunFolder::Close(const Progress& progress) {
  TROUPE_RETURN_IF_ERROR(events_->AddSessionLog(SessionEvent::kStop, progress.step));
  return events_->Close();
}

}  // namespace mnist
