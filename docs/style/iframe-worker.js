// Browsers start no worker from a file: address, and the search runs in one. There, run it in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.appendChild(frame);
      this.inside = frame.contentWindow;
      const say = (to, data) => setTimeout(() => {
        const message = new MessageEvent("message", { data });
        to.dispatchEvent(message);
        if (to === this && this.onmessage) this.onmessage(message);
      });
      this.inside.postMessage = data => say(this, data);  // what the worker says
      this.ready = new Promise(done => {
        const script = frame.contentDocument.createElement("script");
        script.src = url;
        script.onload = done;
        frame.contentDocument.head.appendChild(script);
      });
      this.postMessage = data => this.ready.then(() => say(this.inside, data));
      this.terminate = () => frame.remove();
    }
  };
}

// Whoever searches for --drop means the option; to the search's language a leading - says: pages without that word.
window.Worker = class extends window.Worker {
  constructor(url) {
    super(url);
    const post = this.postMessage.bind(this);
    this.postMessage = message => post(typeof message.data === "string" ? { ...message, data: message.data.replace(/(^|\s)--+(?=\w)/g, "$1") } : message);
  }
};
