// Original and marked audio started together and played in lockstep: a switch moves gains, never sources, so that
// nothing is interrupted and the position stays. The residual is the same two sources with gains of −3 and +3.

/** Voice → gains of the original and of the marked audio. */
export const VOICES = { original: [1, 0], marked: [0, 1], residual: [-3, 3] };

/** Length of a crossfade in seconds. */
export const FADE_SECONDS = 0.01;

/** Seconds from the call to the start of both sources, so that they fall into the same block of the audio thread. */
export const LEAD_SECONDS = 0.03;

/** @typedef {keyof typeof VOICES} Voice */

/** Tells "change" as an event when it starts, stops or comes to its end. */
export class Player extends EventTarget {
  /** @type {{gains: GainNode[], fade: GainNode, sources: AudioBufferSourceNode[]} | null} what sounds at present */
  #take = null;
  /** Position in seconds, and the context's time at which it was or will be there. */
  #from = 0;
  #at = 0;
  #loop = false;
  /** @type {Voice} */
  #voice;
  #sounds;
  #openContext;

  /**
   * @param {() => BaseAudioContext} openContext called at the first start, since browsers want a gesture before
   * @param {AudioBuffer[]} sounds the original, and the marked audio if there is any; of one rate
   */
  constructor(openContext, sounds) {
    super();
    this.#openContext = openContext;
    this.#sounds = sounds;
    this.#voice = sounds.length > 1 ? "marked" : "original";
    this.duration = Math.min(...sounds.map((sound) => sound.duration));
  }

  get playing() {
    return this.#take !== null;
  }

  get voice() {
    return this.#voice;
  }

  get loop() {
    return this.#loop;
  }

  /** Position in seconds. */
  get position() {
    if (!this.#take) return this.#from;
    const position = this.#from + Math.max(0, this.#openContext().currentTime - this.#at);
    return this.#loop ? position % this.duration : Math.min(position, this.duration);
  }

  play() {
    if (this.#take) return;
    const context = this.#openContext();
    this.#at = context.currentTime + LEAD_SECONDS;
    const fade = new GainNode(context, { gain: 0 });
    fade.gain.setValueAtTime(0, this.#at);
    fade.gain.linearRampToValueAtTime(1, this.#at + FADE_SECONDS);
    fade.connect(context.destination);
    const gains = this.#sounds.map((_, i) => new GainNode(context, { gain: VOICES[this.#voice][i] }));
    const sources = this.#sounds.map((buffer, i) => {
      const source = new AudioBufferSourceNode(context, { buffer, loop: this.#loop, loopEnd: this.duration });
      source.connect(gains[i]).connect(fade);
      source.start(this.#at, this.#from);
      return source;
    });
    this.#take = { gains, fade, sources };
    const take = this.#take;
    sources[0].onended = () => {
      if (this.#take === take) this.#rest(0);
    };
    this.#tell();
  }

  pause() {
    if (this.#take) this.#rest(this.position);
  }

  toggle() {
    return this.playing ? this.pause() : this.play();
  }

  /** @param {number} seconds */
  seek(seconds) {
    const playing = this.playing;
    this.#rest(Math.max(0, Math.min(seconds, this.duration)));
    if (playing) this.play();
  }

  /** @param {Voice} voice which one is heard from now on */
  choose(voice) {
    this.#voice = voice;
    this.#take?.gains.forEach((gain, i) => rampTo(gain, VOICES[voice][i]));
  }

  /** @param {boolean} value whether it begins again at the end */
  repeat(value) {
    if (this.#take) {
      this.#from = this.position;
      this.#at = Math.max(this.#at, this.#openContext().currentTime);
      for (const source of this.#take.sources) source.loop = value;
    }
    this.#loop = value;
  }

  /** @param {number} seconds where it rests; what sounds fades out */
  #rest(seconds) {
    const take = this.#take;
    this.#take = null;
    this.#from = seconds;
    if (take) {
      const end = take.fade.context.currentTime + FADE_SECONDS;
      rampTo(take.fade, 0);
      for (const source of take.sources) source.stop(end);
    }
    this.#tell();
  }

  #tell() {
    this.dispatchEvent(new Event("change"));
  }
}

/** @param {GainNode} node @param {number} value reached in a straight line, so that crossfaded gains add up */
function rampTo(node, value) {
  const now = node.context.currentTime,
    present = node.gain.value;
  node.gain.cancelScheduledValues(now);
  node.gain.setValueAtTime(present, now);
  node.gain.linearRampToValueAtTime(value, now + FADE_SECONDS);
}
