import { inHtml } from "../markup.ts";

/** The page's style. The states of cells differ in a sign as well as in colour. */
export const PAGE_STYLE = inHtml`
:root{--fg:#1f2328;--dim:#57606a;--bg:#fff;--box:#f6f8fa;--line:#d0d7de;--edge:#7d868f;--all:#bc4c00;--ports:#0969da;--part:#9a6700;--opens:#1a7f37;--closes:#cf222e;--both:#8250df;--on:#fff}
@media(prefers-color-scheme:dark){:root{--fg:#e6edf3;--dim:#8b949e;--bg:#0d1117;--box:#161b22;--line:#30363d;--edge:#7d868f;--all:#f0883e;--ports:#58a6ff;--part:#d29922;--opens:#3fb950;--closes:#ff7b72;--both:#bc8cff;--on:#0d1117}}
*{box-sizing:border-box}
body{margin:0;padding:1.5rem 2rem;font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg)}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:1.6rem 0 .5rem}
header p,footer{color:var(--dim);margin:.2rem 0}footer{margin-top:2rem;font-size:.85rem}
.tools{display:flex;flex-wrap:wrap;gap:.5rem 1.2rem;align-items:center}
input,.tools button{font:inherit;color:inherit;background:var(--box);border:1px solid var(--line);border-radius:6px;padding:.2rem .5rem}
.tools button[aria-pressed=true]{border-color:var(--ports);color:var(--ports)}
.key{display:inline-flex;gap:.4rem;align-items:center;color:var(--dim)}
.key i{width:22px;height:22px;border-radius:4px;display:inline-block;font-style:normal;text-align:center;line-height:22px}
.sheet{display:flex;gap:1.5rem;align-items:flex-start}
.heat{overflow:auto;max-height:80vh;min-width:0;flex:0 1 auto;scroll-padding:15.5rem .5rem .5rem 18.5rem}
table{border-collapse:separate;border-spacing:2px}
th{font:12px ui-monospace,Menlo,Consolas,monospace;font-weight:400;white-space:nowrap;text-align:left;background:var(--bg)}
thead th{position:sticky;top:0;z-index:1;vertical-align:bottom}thead th:first-child{left:0;z-index:2}
thead th span{display:block;writing-mode:vertical-rl;transform:rotate(180deg);padding:.3rem 0;max-height:15rem;overflow:hidden;text-overflow:ellipsis}
tbody th{position:sticky;left:0;padding-right:.6rem;max-width:18rem;overflow:hidden;text-overflow:ellipsis}
td{padding:0;width:26px;height:26px}
td button{display:block;width:26px;height:26px;border:1px solid var(--edge);border-radius:4px;padding:0;font:13px/24px system-ui,sans-serif;cursor:pointer;background:var(--box);color:var(--dim)}
td button:focus-visible,td button[aria-current=true]{outline:2px solid var(--fg);outline-offset:1px}
td.apart,th.apart{border-left:2px solid var(--line)}tr.apart>*{border-top:2px solid var(--line)}
.all{background:var(--all)!important;color:var(--on)!important}.ports{background:var(--ports)!important;color:var(--on)!important}
.part{background:repeating-linear-gradient(45deg,var(--part) 0 4px,transparent 4px 7px),var(--box)!important;color:var(--fg)!important}
.key .none{background:var(--box);border:1px solid var(--edge)}
i.opens,td .opens{background:var(--opens)!important;color:var(--on)!important}i.closes,td .closes{background:var(--closes)!important;color:var(--on)!important}
i.both,td .both{background:var(--both)!important;color:var(--on)!important}
.all::before{content:"\\25cf"}.ports::before{content:"\\2022"}.part::before{content:"\\25d0"}
i.opens::before,td .opens::before{content:"+"}i.closes::before,td .closes::before{content:"\\2212"}i.both::before,td .both::before{content:"\\00b1"}
aside{flex:0 0 min(30rem,42%);max-height:80vh;overflow:auto;border:1px solid var(--line);border-radius:8px;padding:.8rem 1rem;background:var(--box);position:sticky;top:1rem}
aside h3{margin:0 0 .3rem;font-size:1rem;overflow-wrap:anywhere}aside p{margin:.3rem 0;color:var(--dim)}
pre{font:12.5px/1.5 ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere;margin:.5rem 0}
code{font:12.5px ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
details{border-left:3px solid var(--line);padding:.2rem .7rem;margin:.3rem 0}details.opens{border-color:var(--opens)}details.closes{border-color:var(--closes)}
summary{cursor:pointer;overflow-wrap:anywhere}details.opens b{color:var(--opens)}details.closes b{color:var(--closes)}
li{overflow-wrap:anywhere;color:var(--dim)}
@media(max-width:60rem){html{scroll-padding-bottom:36vh}body{padding:1rem}.sheet{flex-direction:column}.heat{max-width:100%;max-height:60vh;scroll-padding-left:8.5rem}tbody th,thead th:first-child{max-width:8rem}
aside{flex:none;width:100%;max-height:35vh;top:auto;bottom:0;z-index:3}}
`;
