/** Dates in the calendars of CF: "days since 2000-01-01" and what numbers then mean. */

export interface Epoch {
  readonly calendar: string;
  /** Milliseconds of one unit. */
  readonly unit: number;
  /** Days from 0000-03-01 of the calendar, or from 1970-01-01 of those with leap years, to the reference date. */
  readonly day: number;
  /** Milliseconds of that day. */
  readonly offset: number;
}

/** A day of a calendar. */
export interface Civil {
  readonly year: number;
  readonly month: number;
  readonly day: number;
}

const DAY = 86_400_000;
const UNITS: readonly (readonly [RegExp, number])[] = [
  [/^(microseconds?|microsecs?|us|µs)$/, 1e-3],
  [/^(nanoseconds?|nanosecs?|ns)$/, 1e-6],
  [/^(milliseconds?|millisecs?|msecs?|ms)$/, 1],
  [/^(seconds?|secs?|s)$/, 1000],
  [/^(minutes?|mins?)$/, 60_000],
  [/^(hours?|hrs?|hr|h)$/, 3_600_000],
  [/^(days?|d)$/, DAY],
  [/^weeks?$/, 7 * DAY],
];
const SINCE =
  /^\s*(\S+)\s+since\s+([+-]?\d{1,4})-(\d{1,2})(?:-(\d{1,2}))?(?:[T ]+(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(\.\d*)?)?)?)?\s*(?:Z|UTC|GMT|([+-]\d{1,2}):?(\d{2})?)?\s*$/i;
const LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const LEAPING = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
// the Julian calendar ends on 1582-10-04; these are days since 1970-01-01
const REFORM = -141_427;

/** Read units such as "hours since 1900-01-01 00:00:00"; `null` if they are no time, or of an unknown calendar. */
export function epoch(units: unknown, calendar: unknown = "standard"): Epoch | null {
  const found = typeof units === "string" ? SINCE.exec(units) : null;
  if (found === null) return null;
  const unit = UNITS.find(([name]) => name.test(found[1]!.toLowerCase()))?.[1];
  const name = canonical(typeof calendar === "string" ? calendar.toLowerCase() : "standard");
  if (unit === undefined || name === null) return null;
  const date = { year: Number(found[2]), month: Number(found[3]), day: Number(found[4] ?? 1) };
  const clock =
    Number(found[5] ?? 0) * 3600 + Number(found[6] ?? 0) * 60 + Number(found[7] ?? 0) + Number(found[8] ?? 0);
  const zone = Number(found[9] ?? 0) * 60 + Math.sign(Number(found[9] ?? 0) || 1) * Number(found[10] ?? 0);
  return { calendar: name, unit, day: dayOf(date, name), offset: clock * 1000 - zone * 60_000 };
}

function canonical(calendar: string): string | null {
  const names: Record<string, string> = {
    standard: "standard",
    gregorian: "standard",
    proleptic_gregorian: "proleptic_gregorian",
    julian: "julian",
    noleap: "noleap",
    "365_day": "noleap",
    all_leap: "all_leap",
    "366_day": "all_leap",
    "360_day": "360_day",
  };
  return names[calendar] ?? null;
}

/** Write a number in these units as a date, as finely as `step` milliseconds ask for. */
export function date(value: number, of: Epoch, step = 1): string {
  const total = value * of.unit + of.offset;
  if (!Number.isFinite(total)) return "NaT";
  let days = Math.floor(total / DAY);
  let rest = Math.round(total - days * DAY);
  if (rest >= DAY) {
    days += 1;
    rest -= DAY;
  }
  const { year, month, day } = civil(of.day + days, of.calendar);
  const two = (part: number): string => String(part).padStart(2, "0");
  const years = year < 0 ? `-${String(-year).padStart(4, "0")}` : String(year).padStart(4, "0");
  if (step >= 365 * DAY) return years;
  if (step >= 28 * DAY) return `${years}-${two(month)}`;
  const full = `${years}-${two(month)}-${two(day)}`;
  if (step >= DAY || (rest === 0 && step === 1)) return full;
  const clock = `${two(Math.floor(rest / 3_600_000))}:${two(Math.floor(rest / 60_000) % 60)}`;
  if (step >= 60_000 || rest % 60_000 === 0) return `${full} ${clock}`;
  const seconds = `${full} ${clock}:${two(Math.floor(rest / 1000) % 60)}`;
  return rest % 1000 === 0 ? seconds : `${seconds}.${String(rest % 1000).padStart(3, "0")}`;
}

/** Return the day of a number in these units. */
export function civilOf(value: number, of: Epoch): Civil {
  return civil(of.day + Math.floor((value * of.unit + of.offset) / DAY + 1e-9), of.calendar);
}

/** Return the number in these units of a day and the milliseconds since it began. */
export function timeOf(day: Civil, milliseconds: number, of: Epoch): number {
  return ((dayOf(day, of.calendar) - of.day) * DAY + milliseconds - of.offset) / of.unit;
}

function dayOf(date: Civil, calendar: string): number {
  const { year, month, day } = date;
  if (calendar === "360_day") return year * 360 + (month - 1) * 30 + day - 1;
  if (calendar === "noleap" || calendar === "all_leap") {
    const lengths = calendar === "noleap" ? LENGTHS : LEAPING;
    const before = lengths.slice(0, month - 1).reduce((total, length) => total + length, 0);
    return year * (calendar === "noleap" ? 365 : 366) + before + day - 1;
  }
  if (calendar === "julian") return leaping(date, false);
  const gregorian = leaping(date, true);
  return calendar === "proleptic_gregorian" || gregorian >= REFORM ? gregorian : leaping(date, false);
}

/** Return days since 1970-01-01, of the Gregorian or the Julian calendar; years begin in March, so leap days end them. */
function leaping({ year, month, day }: Civil, gregorian: boolean): number {
  const at = month <= 2 ? year - 1 : year;
  const days = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1;
  const leaps = gregorian ? Math.floor(at / 4) - Math.floor(at / 100) + Math.floor(at / 400) : Math.floor(at / 4) - 2;
  return at * 365 + leaps + days - 719_468;
}

function civil(days: number, calendar: string): Civil {
  if (calendar === "360_day") {
    const year = Math.floor(days / 360);
    const rest = days - year * 360;
    return { year, month: Math.floor(rest / 30) + 1, day: (rest % 30) + 1 };
  }
  if (calendar === "noleap" || calendar === "all_leap") {
    const lengths = calendar === "noleap" ? LENGTHS : LEAPING;
    const size = calendar === "noleap" ? 365 : 366;
    const year = Math.floor(days / size);
    let rest = days - year * size;
    let month = 0;
    while (rest >= lengths[month]!) rest -= lengths[month++]!;
    return { year, month: month + 1, day: rest + 1 };
  }
  const gregorian = calendar === "proleptic_gregorian" || (calendar === "standard" && days >= REFORM);
  return fromMarch(days + 719_468, gregorian);
}

function fromMarch(days: number, gregorian: boolean): Civil {
  const [cycle, years] = gregorian ? [146_097, 400] : [1461, 4];
  const shifted = gregorian ? days : days + 2;
  const era = Math.floor(shifted / cycle);
  const inside = shifted - era * cycle;
  const year = gregorian
    ? Math.floor(
        (inside - Math.floor(inside / 1460) + Math.floor(inside / 36_524) - Math.floor(inside / 146_096)) / 365,
      )
    : Math.floor((inside - Math.floor(inside / 1460)) / 365);
  const leaps = gregorian ? Math.floor(year / 4) - Math.floor(year / 100) : Math.floor(year / 4);
  const rest = inside - (year * 365 + leaps);
  const month = Math.floor((5 * rest + 2) / 153);
  return {
    year: year + era * years + (month >= 10 ? 1 : 0),
    month: month < 10 ? month + 3 : month - 9,
    day: rest - Math.floor((153 * month + 2) / 5) + 1,
  };
}
