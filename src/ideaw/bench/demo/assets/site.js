// One player at a time. Players of a group go on where the last one was, so that the same moment is compared.
"use strict";
const players = [...document.querySelectorAll("audio")];
const places = new Map();

for (const player of players) {
  const { group } = player.dataset;
  player.addEventListener("play", () => {
    players.filter((other) => other !== player).forEach((other) => other.pause());
    const last = places.get(group);
    if (group && last && last.player !== player) player.currentTime = last.seconds;
    places.set(group, { player, seconds: player.currentTime });
  });
  player.addEventListener("timeupdate", () => {
    if (places.get(group)?.player === player) places.get(group).seconds = player.ended ? 0 : player.currentTime;
  });
}
