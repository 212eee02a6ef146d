// Saving, loading and resuming a session.
#include "host/base/error.hpp"
#include "host/torch.hpp"
#include "host/train/checkpoint.hpp"
#include "host/train/session.hpp"

namespace mneme::train {

std::unique_ptr<Session> Session::resume(const std::filesystem::path& folder,
                                         SessionOptions options) {
  const RunFolder run = RunFolder::open(folder);
  const config::Experiment experiment = run.experiment();
  if (!options.runtime.dataset) {
    data::DatasetOptions data;
    data.vocabulary = run.vocabulary();
    options.runtime.dataset = std::make_shared<const data::Dataset>(experiment.data, data);
  }
  options.folder.clear();
  auto session = std::make_unique<Session>(experiment, std::move(options));
  if (std::filesystem::exists(run.checkpoint())) session->load(run.checkpoint());
  run.truncate_metrics(session->step_);
  session->folder_ = std::make_unique<RunFolder>(run);
  return session;
}

void Session::save(const std::filesystem::path& path) {
  RunProgress progress;
  progress.step = step_;
  progress.tokens = tokens_;
  progress.seconds = seconds_;
  progress.valid = valid_;
  progress.data_position = stream_->position();
  progress.noise_position = runtime_->model().noise_position();
  write_checkpoint(path, *runtime_, *optimizer_, state_, progress);
  last_checkpoint_ = path;
  last_checkpoint_step_ = step_;
}

void Session::load(const std::filesystem::path& path) {
  const Checkpoint checkpoint = Checkpoint::open(path);
  checkpoint.check_resumable(experiment());
  checkpoint.check_moments(*optimizer_);
  memory::StackState state = checkpoint.load_state(*runtime_);
  const std::vector<std::int64_t> place = stream_->position();
  stream_->seek(checkpoint.progress().data_position);
  try {
    static_cast<void>(checkpoint.load_weights(*runtime_, config::Carry::kRefuse));
  } catch (...) {
    stream_->seek(place);
    throw;
  }
  checkpoint.load_moments(*optimizer_);
  state_ = std::move(state);
  runtime_->model().seek_noise(checkpoint.progress().noise_position);
  step_ = checkpoint.progress().step;
  tokens_ = checkpoint.progress().tokens;
  seconds_ = checkpoint.progress().seconds;
  valid_ = checkpoint.progress().valid;
  last_checkpoint_ = path;
  last_checkpoint_step_ = step_;
}

}  // namespace mneme::train
