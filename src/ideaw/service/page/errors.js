// What a user can mend, or has to know: its text is shown as it is. Anything else is a mistake of the page itself.

export class UserError extends Error {}
