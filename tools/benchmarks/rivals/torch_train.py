"""The training step of E5 and E8 in PyTorch, as train_main.cc times ours.

    torch_train.py E5|E8 THREADS FOLDER SECONDS
"""
import sys

import train_data as data
import torch
from torch import nn

net, threads, folder, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
torch.set_num_threads(threads)

if net == "E5":
    layers = [nn.Flatten()]
    for i in range(4):
        layers += [nn.Linear(data.MLP[i], data.MLP[i + 1]), nn.ReLU()]
    layers.append(nn.Linear(30, 10))
else:
    # The last padding of 4x4 is one on each side; TensorFlow's SAME pads one before and two after,
    # which costs the same.
    layers = [nn.Conv2d(1, 6, 6, padding="same"), nn.ReLU(), nn.Conv2d(6, 12, 5, 2, padding=2), nn.ReLU(), nn.Conv2d(12, 24, 4, 2, padding=1), nn.ReLU(),
              nn.Flatten(), nn.Linear(1176, 200), nn.ReLU(), nn.Dropout(0.25), nn.Linear(200, 10)]
model = nn.Sequential(*layers)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
loss_of = nn.CrossEntropyLoss()
batches = [(torch.from_numpy(x.copy()).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(t.argmax(1)).long()) for x, t in data.batches(folder)]


def step(i):
    x, t = batches[i % len(batches)]
    optimizer.zero_grad()
    (loss_of(model(x), t) * 100).backward()
    optimizer.step()


data.serve(torch.__version__, seconds, step)
