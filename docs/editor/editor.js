// The editor of the console: CodeMirror with SQL, completion of declared names, and marks for a refused part.
import {EditorState, StateEffect, StateField} from "@codemirror/state";
import {Decoration, EditorView, keymap, drawSelection, highlightSpecialChars, placeholder} from "@codemirror/view";
import {defaultKeymap, history, historyKeymap} from "@codemirror/commands";
import {syntaxHighlighting, HighlightStyle, bracketMatching} from "@codemirror/language";
import {tags} from "@lezer/highlight";
import {autocompletion, completionKeymap, closeBrackets, closeBracketsKeymap} from "@codemirror/autocomplete";
import {sql, SQLDialect} from "@codemirror/lang-sql";

const dialect = SQLDialect.define({
  keywords: "select from where group by order having limit as and or not in is null between like case when then else end " +
    "join left on using with union all distinct over partition asc desc filter extract interval date timestamp true false cast",
  builtin: "count sum avg min max median quantile_cont stddev variance corr date_trunc bucket coalesce round floor lower upper",
  types: "integer real text boolean",
});
const refuse = StateEffect.define();
const refused = StateField.define({
  create: () => Decoration.none,
  update(marks, change) {
    marks = change.docChanged ? Decoration.none : marks;
    for (const effect of change.effects) if (effect.is(refuse)) {
      const {from, to} = effect.value;
      marks = from === null ? Decoration.none : Decoration.set([Decoration.mark({class: "cm-refused"}).range(from, to)]);
    }
    return marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const colours = HighlightStyle.define([
  {tag: tags.keyword, color: "var(--keyword)", fontWeight: "600"},
  {tag: [tags.string, tags.special(tags.string)], color: "var(--string)"},
  {tag: tags.number, color: "var(--number)"},
  {tag: tags.comment, color: "var(--muted)"},
]);

export function makeEditor({parent, text, nonce, schema, onChange, onRun}) {
  const run = {key: "Mod-Enter", run: () => { onRun(); return true; }};
  const leave = {key: "Escape", run: (view) => { view.contentDOM.blur(); parent.dispatchEvent(new Event("leave")); return true; }};
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        EditorView.cspNonce.of(nonce),
        highlightSpecialChars(), history(), drawSelection(), bracketMatching(), closeBrackets(),
        autocompletion({icons: false}), refused, syntaxHighlighting(colours), EditorView.lineWrapping,
        placeholder("SELECT ... FROM ..."),
        sql({dialect, schema, upperCaseKeywords: true, defaultTable: Object.keys(schema)[0]}),
        EditorView.contentAttributes.of({"aria-label": "Question in SQL. Escape leaves the editor.", "aria-multiline": "true", contenteditable: "plaintext-only"}),
        keymap.of([run, ...closeBracketsKeymap, ...completionKeymap, leave, ...defaultKeymap, ...historyKeymap]),
        EditorView.updateListener.of((update) => { if (update.docChanged) onChange(); }),
      ],
    }),
  });
  return {
    get text() { return view.state.doc.toString(); },
    set text(value) { view.dispatch({changes: {from: 0, to: view.state.doc.length, insert: value}}); },
    insert(value) { view.dispatch(view.state.replaceSelection(value)); view.focus(); },
    underline(from, to) { view.dispatch({effects: refuse.of({from, to})}); },
    focus() { view.focus(); },
  };
}
