-- What Tandem's two proxies say to each other, for Wireshark and tshark 3.6 or newer:
--
--   wireshark -X lua_script:tandem.lua capture.pcapng
--   tshark -X lua_script:tandem.lua -r capture.pcapng -Y tandem -O tandem
--
-- Is: a post-dissector. It reads TCP's options and payload beside what other dissectors make of them: the proxies' options (an experimental TCP
-- option, RFC 6994), frames that stand in for a flight, and the messages of the 2009 thesis (`--wire mcveety`).
-- Is not: a check of tags, which need the pair's key; nor a rebuilder, which needs a store.
--
-- A new kind of option or frame is one entry in OPTIONS or FRAMES; a kind that is not there is shown by its number.
-- Whatever the bytes are, nothing here reads past their end: what cannot be read is shown as malformed.

local OPTION_KIND = 253
local EXPERIMENT_ID = 0x5444
local TAG_LENGTH = 7
local CHECK_LENGTH = 8
local REFERENCE_LENGTH = 16
local MOST_SPAN = 65536
local MOST_REFERENCES = 64
local MOST_DICTIONARIES = 8
-- A rewritten segment's TSval is put back by this much, so that an endpoint discards it (RFC 7323, PAWS).
local SHIFT = 2 ^ 30

-- Types of a proxies' option: name, what it says, and what its body is a list of (bytes an entry), if anything; or the length of a fingerprint of holdings.
local OPTIONS = {
    [1] = { name = "presence", says = "a client-side proxy is here", holdings = 4 },
    [2] = { name = "answer", says = "a server-side proxy is here, and heard the other" },
    [3] = { name = "hint", says = "this is held here", entry = 4 },
    [4] = { name = "miss", says = "it cannot be rebuilt here: send the originals" },
    [5] = { name = "client miss", says = "the client's flight cannot be rebuilt here: send the originals" },
    [6] = { name = "held", says = "these of the certificates that the hello names are held, a bit each", entry = 4 },
}

-- Types of a frame: name, and what it stands in for. All have the same layout, but for a publication, which stands in for nothing.
local FRAMES = {
    [1] = { name = "flight", says = "the server's flight" },
    [2] = { name = "client flight", says = "the client's flight after the server's, or its hello" },
}
local PUBLICATION = 3

-- Kinds of an entry in the thesis's CompressedCertificate.
local ENTRIES = { [0] = "padding", [1] = "reference", [2] = "certificate" }

local function names(kinds)
    local found = {}
    for number, kind in pairs(kinds) do
        found[number] = type(kind) == "table" and kind.name or kind
    end
    return found
end

local tandem = Proto("tandem", "Tandem")

local fields = {
    version = ProtoField.uint8("tandem.version", "Version of the messages"),
    option = ProtoField.uint8("tandem.option", "Option", base.DEC, names(OPTIONS)),
    held = ProtoField.bytes("tandem.option.held", "Held"),
    body = ProtoField.bytes("tandem.option.body", "Body"),
    holdings = ProtoField.uint32("tandem.holdings", "Fingerprint of the holdings", base.HEX),
    filter_rate = ProtoField.uint32("tandem.filter.one_in", "One in so many that are not held passes for held"),
    filter_count = ProtoField.uint32("tandem.filter.chains", "Clients' chains"),
    filter_bits = ProtoField.bytes("tandem.filter.bits", "Filter"),
    tag = ProtoField.bytes("tandem.option.tag", "Tag"),
    frame = ProtoField.uint8("tandem.frame", "Frame", base.DEC, names(FRAMES)),
    span = ProtoField.uint32("tandem.frame.span", "Stands for (bytes)"),
    delta_length = ProtoField.uint32("tandem.frame.delta_length", "Length of the delta"),
    frame_length = ProtoField.uint32("tandem.frame.length", "Length of the frame"),
    saved = ProtoField.uint32("tandem.frame.saved", "Bytes saved"),
    check = ProtoField.bytes("tandem.frame.check", "Check"),
    segment = ProtoField.framenum("tandem.frame.segment", "Segment"),
    tsval = ProtoField.uint32("tandem.tsval", "The sender's own TSval"),
    reference = ProtoField.bytes("tandem.reference", "Reference"),
    add = ProtoField.bytes("tandem.add", "Literal bytes"),
    add_length = ProtoField.uint32("tandem.add.length", "Length"),
    copy_reference = ProtoField.bytes("tandem.copy.reference", "Of"),
    copy_offset = ProtoField.uint32("tandem.copy.offset", "Offset"),
    copy_length = ProtoField.uint32("tandem.copy.length", "Length"),
    inflate = ProtoField.bytes("tandem.inflate", "Compressed bytes"),
    inflate_length = ProtoField.uint32("tandem.inflate.length", "Length"),
    inflate_dictionary = ProtoField.string("tandem.inflate.dictionary", "Dictionary"),
    possession = ProtoField.bytes("tandem.mcveety.possession", "Held"),
    intention = ProtoField.bytes("tandem.intention", "Will show"),
    entry = ProtoField.uint8("tandem.mcveety.entry", "Entry", base.DEC, ENTRIES),
    entry_reference = ProtoField.bytes("tandem.mcveety.reference", "Reference"),
    entry_certificate = ProtoField.bytes("tandem.mcveety.certificate", "Certificate"),
}
tandem.fields = fields

local malformed = ProtoExpert.new("tandem.malformed", "Malformed", expert.group.MALFORMED, expert.severity.WARN)
local incomplete = ProtoExpert.new("tandem.incomplete", "More segments are needed", expert.group.REASSEMBLE, expert.severity.NOTE)
tandem.experts = { malformed, incomplete }

tandem.prefs.possession = Pref.uint("Thesis: possession extension", 0x99, "Number of the hello extension (--mcveety-cpi)")
tandem.prefs.intention = Pref.uint("Announcing clients: intention extension", 0x9a, "Number of the hello extension (TANDEM_KEYTAP_EXTENSION)")
tandem.prefs.certificate = Pref.uint("Thesis: CompressedCertificate", 0x99, "Number of the message (--mcveety-certificate)")

local tcp_stream = Field.new("tcp.stream")
local tcp_port = Field.new("tcp.srcport")
local tcp_seq = Field.new("tcp.seq")
local tcp_options = Field.new("tcp.options")
local tcp_payload = Field.new("tcp.payload")
local tcp_tsval = Field.new("tcp.options.timestamp.tsval")

-- Streams in which an option was seen; segments that a message began in and did not end in, by stream and direction; and for
-- packets in which such a message ended, all its bytes.
local agreed, pending, joined

function tandem.init()
    agreed, pending, joined = {}, {}, {}
end

-- A place in a run of bytes. What is taken lies inside the bytes, or is nil.
local Cursor = {}
Cursor.__index = Cursor

local function cursor(range)
    return setmetatable({ range = range, at = 0, length = range:len() }, Cursor)
end

function Cursor:left()
    return self.length - self.at
end

function Cursor:take(count)
    if count < 1 or count > self:left() then
        return nil
    end
    local taken = self.range:range(self.at, count)
    self.at = self.at + count
    return taken
end

function Cursor:number(count)
    local taken = self:take(count)
    return taken and taken:uint(), taken
end

-- LEB128, at most five bytes, the shortest form only.
function Cursor:varint()
    local value, factor = 0, 1
    for index = 1, 5 do
        if self.at + index > self.length then
            return nil, "cut"
        end
        local byte = self.range:range(self.at + index - 1, 1):uint()
        value = value + byte % 128 * factor
        factor = factor * 128
        if byte < 128 then
            if (index > 1 and byte == 0) or value >= 2 ^ 32 then
                return nil, "bad"
            end
            local taken = self.range:range(self.at, index)
            self.at = self.at + index
            return value, taken
        end
    end
    return nil, "bad"
end

local function plural(count, word)
    return string.format("%d %s%s", count, word, count == 1 and "" or "s")
end

local function short(range)
    return tostring(range:bytes()):lower():sub(1, 16) .. "…"
end

local function complain(tree, why)
    tree:add_proto_expert_info(malformed, why)
end

-- One option: what follows the experiment's identifier. Its words.
local function proxy_option(data, tree)
    local from = cursor(data)
    local head, head_range = from:number(1)
    if not head or from:left() < TAG_LENGTH then
        complain(tree:add(tandem, data, "Tandem option, cut"), "Too short for an option")
        return "cut option"
    end
    local kind = OPTIONS[head % 16]
    local name = kind and kind.name or string.format("option of type %d", head % 16)
    local own = tree:add(tandem, data, "Tandem option: " .. name .. (kind and " (" .. kind.says .. ")" or ""))
    own:add(fields.version, head_range, math.floor(head / 16))
    own:add(fields.option, head_range, head % 16)
    local body_length = from:left() - TAG_LENGTH
    local body = from:take(body_length)
    if body and kind and kind.entry and body_length % kind.entry == 0 then
        local entries = cursor(body)
        while entries:left() > 0 do
            own:add(fields.held, entries:take(kind.entry))
        end
    elseif body and kind and kind.holdings == body_length then
        own:add(fields.holdings, body)
    elseif body then
        own:add(fields.body, body)
        if kind and kind.entry then
            complain(own, "The body is no list of " .. plural(kind.entry, "byte") .. " an entry")
        end
    end
    own:add(fields.tag, from:take(TAG_LENGTH))
    return name
end

-- The proxies' options among a segment's options.
local function proxy_options(options, tree)
    local found = {}
    local at, length = 0, options:len()
    while at < length do
        local kind = options:range(at, 1):uint()
        if kind == 0 then
            break
        elseif kind == 1 then
            at = at + 1
        else
            local size = at + 1 < length and options:range(at + 1, 1):uint() or 0
            if size < 2 or at + size > length then
                break
            end
            if kind == OPTION_KIND and size > 4 and options:range(at + 2, 2):uint() == EXPERIMENT_ID then
                found[#found + 1] = proxy_option(options:range(at + 4, size - 4), tree)
            end
            at = at + size
        end
    end
    return found
end

-- What the next number names: the bytes of a reference, or the number of what both sides know; and the number's range. Nil and why:
-- there is none. In the first version a name is the index of a reference; later its lowest bit says which of the two it is.
local function parse_name(from, version, references)
    local name, where = from:varint()
    if not name then
        return nil, where
    end
    if version == 1 then
        return references[name + 1], references[name + 1] and where or "of a reference that is not there"
    end
    if name % 2 == 1 then
        return math.floor(name / 2), where
    end
    local reference = references[name / 2 + 1]
    return reference, reference and where or "of a reference that is not there"
end

-- What a delta in a frame of this version says, or why it is none. Changes nothing.
local function parse_delta(range, version)
    local delta = { references = {}, instructions = {}, added = 0, copied = 0, inflated = 0 }
    local from = cursor(range)
    local count, count_range = from:varint()
    if not count then
        return nil, "The number of references is " .. count_range
    end
    delta.count, delta.count_range = count, count_range
    if count > MOST_REFERENCES or count * REFERENCE_LENGTH > from:left() then
        return nil, "More references than there is room for"
    end
    for index = 1, count do
        delta.references[index] = from:take(REFERENCE_LENGTH)
    end
    while from:left() > 0 do
        local start = from.at
        local head, why = from:varint()
        if not head then
            return nil, "The length of an instruction is " .. why
        end
        local size, kind = math.floor(head / 2), head % 2
        if head == 0 and version > 1 then
            kind = 2
            size, why = from:varint()
            if not size then
                return nil, "The length of compressed bytes is " .. why
            end
        end
        local step = { size = size }
        if size == 0 then
            return nil, "An instruction of no bytes"
        end
        if kind == 0 then
            step.add = from:take(size)
            if not step.add then
                return nil, "Literal bytes are cut"
            end
            delta.added = delta.added + size
        elseif kind == 1 then
            local name, name_why = parse_name(from, version, delta.references)
            if not name then
                return nil, "A copy is " .. name_why
            end
            local offset, offset_range = from:varint()
            if not offset then
                return nil, "A copy is " .. offset_range
            end
            step.name, step.offset, step.offset_range = name, offset, offset_range
            delta.copied = delta.copied + size
        else
            local dictionaries = from:varint()
            if not dictionaries or dictionaries > MOST_DICTIONARIES then
                return nil, "Compressed bytes have no number of dictionaries, or too many"
            end
            step.dictionaries = {}
            for index = 1, dictionaries do
                local name, name_why = parse_name(from, version, delta.references)
                if not name then
                    return nil, "A dictionary is " .. name_why
                end
                step.dictionaries[index] = name
            end
            local length = from:varint()
            step.compressed = length and from:take(length)
            if not step.compressed then
                return nil, "Compressed bytes are cut"
            end
            delta.inflated = delta.inflated + size
        end
        step.whole = range:range(start, from.at - start)
        delta.instructions[#delta.instructions + 1] = step
        if delta.added + delta.copied + delta.inflated > MOST_SPAN then
            return nil, "It rebuilds more than a frame may stand for"
        end
    end
    return delta
end

-- A name for people.
local function named(name)
    if type(name) ~= "number" then
        return short(name)
    end
    return "number " .. name
end

local function show_delta(delta, range, tree)
    local own = tree:add(range, string.format(
        "Delta: %s, %s literal, %s%s copied",
        plural(#delta.instructions, "instruction"),
        plural(delta.added, "byte"),
        delta.inflated > 0 and plural(delta.inflated, "byte") .. " compressed, " or "",
        plural(delta.copied, "byte")
    ))
    for _, reference in ipairs(delta.references) do
        own:add(fields.reference, reference)
    end
    for _, step in ipairs(delta.instructions) do
        if step.add then
            local line = own:add(step.whole, "Add " .. plural(step.size, "byte"))
            line:add(fields.add_length, step.whole, step.size)
            line:add(fields.add, step.add)
        elseif step.compressed then
            local line = own:add(step.whole, string.format(
                "Inflate %s to %s", plural(step.compressed:len(), "byte"), plural(step.size, "byte")
            ))
            line:add(fields.inflate_length, step.whole, step.size)
            for _, name in ipairs(step.dictionaries) do
                line:add(fields.inflate_dictionary, step.whole, named(name))
            end
            line:add(fields.inflate, step.compressed)
        else
            local line = own:add(step.whole, string.format(
                "Copy %s from offset %d of %s", plural(step.size, "byte"), step.offset, named(step.name)
            ))
            line:add(fields.copy_length, step.whole, step.size)
            line:add(fields.copy_offset, step.offset_range, step.offset)
            if type(step.name) ~= "number" then
                line:add(fields.copy_reference, step.name)
            end
        end
    end
end

-- The frame at the front of these bytes. Nil: there is none; "more": its end is missing.
local function parse_frame(data, is_agreed)
    local from = cursor(data)
    local head, head_range = from:number(1)
    local version, kind = math.floor(head / 16), FRAMES[head % 16]
    if version == 0 or not kind then
        return nil
    end
    local span, span_range = from:varint()
    if not span then
        return span_range == "cut" and is_agreed and "more" or nil
    end
    local delta_length, length_range = from:varint()
    if not delta_length then
        return length_range == "cut" and is_agreed and "more" or nil
    end
    local length = from.at + delta_length + CHECK_LENGTH
    if span > MOST_SPAN or length >= span or delta_length == 0 then
        return nil
    end
    if length > data:len() then
        return is_agreed and "more" or nil
    end
    local delta_range = from:take(delta_length)
    local delta, why = parse_delta(delta_range, version)
    if delta and delta.added + delta.copied + delta.inflated ~= span then
        delta, why = nil, "The delta rebuilds another number of bytes"
    end
    -- Where no option was seen, only a form that is right in everything says that this is a frame.
    if not delta and not is_agreed then
        return nil
    end
    return {
        whole = data:range(0, length),
        version = version,
        number = head % 16,
        kind = kind,
        head_range = head_range,
        span = span,
        span_range = span_range,
        delta_length = delta_length,
        length_range = length_range,
        length = length,
        delta = delta,
        why = why,
        delta_range = delta_range,
        check = from:take(CHECK_LENGTH),
    }
end

local function show_frame(frame, tree, parts, tsval)
    local own = tree:add(tandem, frame.whole, string.format(
        "Tandem frame: %s in place of %s of %s", plural(frame.length, "byte"), plural(frame.span, "byte"), frame.kind.says
    ))
    own:add(fields.version, frame.head_range, frame.version)
    own:add(fields.frame, frame.head_range, frame.number)
    own:add(fields.span, frame.span_range, frame.span)
    own:add(fields.delta_length, frame.length_range, frame.delta_length)
    own:add(fields.frame_length, frame.whole, frame.length):set_generated()
    own:add(fields.saved, frame.whole, frame.span - frame.length):set_generated()
    if tsval then
        own:add(fields.tsval, (tsval.value + SHIFT) % 2 ^ 32):set_generated()
    end
    if frame.delta then
        show_delta(frame.delta, frame.delta_range, own)
    else
        complain(own:add(frame.delta_range, "Delta"), frame.why)
    end
    own:add(fields.check, frame.check)
    for _, number in ipairs(parts or {}) do
        own:add(fields.segment, number):set_generated()
    end
    return string.format("%s: %d bytes for %d", frame.kind.name, frame.length, frame.span)
end

-- A payload that is a publication as a whole, and no shorter or longer.
local function parse_publication(data)
    local from = cursor(data)
    local head, head_range = from:number(1)
    if head % 16 ~= PUBLICATION or head < 16 then
        return nil
    end
    local holdings = from:take(4)
    local rate, rate_range = from:varint()
    local count, count_range = from:varint()
    local length = from:varint()
    if not holdings or not rate or not count or not length or from:left() ~= length + CHECK_LENGTH then
        return nil
    end
    return {
        head_range = head_range,
        version = math.floor(head / 16),
        holdings = holdings,
        rate = rate,
        rate_range = rate_range,
        count = count,
        count_range = count_range,
        bits = from:take(length),
        check = from:take(CHECK_LENGTH),
    }
end

local function show_publication(publication, data, tree)
    local own = tree:add(tandem, data, string.format(
        "Tandem publication: a filter over %s", plural(publication.count, "client's chain")
    ))
    own:add(fields.version, publication.head_range, publication.version)
    own:add(fields.holdings, publication.holdings)
    own:add(fields.filter_rate, publication.rate_range, publication.rate)
    own:add(fields.filter_count, publication.count_range, publication.count)
    if publication.bits then
        own:add(fields.filter_bits, publication.bits)
    end
    own:add(fields.check, publication.check)
    return string.format("publication: %d bytes, %s", data:len(), plural(publication.count, "chain"))
end

-- A list of references in an extension, if it is one.
local function show_references(extension, data, field, says, tree)
    if not data or data:len() % REFERENCE_LENGTH ~= 0 then
        return nil
    end
    local references = cursor(data)
    local count = data:len() / REFERENCE_LENGTH
    local own = tree:add(tandem, extension, string.format("Tandem %s indication: %s", says, plural(count, "certificate")))
    while references:left() > 0 do
        own:add(field, references:take(REFERENCE_LENGTH))
    end
    return string.format("%s of %d", says, count)
end

-- What is announced in a hello: by a client, what it will show; by the thesis's proxy, what is held, in the last extension of either.
local function show_hello(is_client, body, tree, found)
    local from = cursor(body)
    if not from:take(2 + 32) then
        return
    end
    -- A client's session, cipher suites and compression methods, each behind its length; a server chooses one of both.
    for _, size in ipairs(is_client and { 1, 2, 1 } or { 1 }) do
        local length = from:number(size)
        if not length or (length > 0 and not from:take(length)) then
            return
        end
    end
    if not is_client then
        from:take(3)
    end
    if from:number(2) ~= from:left() then
        return
    end
    while from:left() >= 4 do
        local start = from.at
        local kind = from:number(2)
        local length = from:number(2)
        local data = from:take(length)
        if not data and length > 0 then
            return
        end
        local extension = body:range(start, 4 + length)
        if kind == tandem.prefs.intention and is_client then
            found[#found + 1] = show_references(extension, data, fields.intention, "intention", tree)
        elseif kind == tandem.prefs.possession and from:left() == 0 then
            found[#found + 1] = show_references(extension, data, fields.possession, "possession", tree)
        end
    end
end

-- The thesis's CompressedCertificate.
local function show_compressed(body, tree)
    local own = tree:add(tandem, body, "Tandem CompressedCertificate")
    local from = cursor(body)
    local held, sent = 0, 0
    if body:len() % REFERENCE_LENGTH == 0 then
        while from:left() > 0 do
            own:add(fields.entry_reference, from:take(REFERENCE_LENGTH))
            held = held + 1
        end
    else
        while from:left() > 0 do
            local kind, kind_range = from:number(1)
            own:add(fields.entry, kind_range, kind)
            local bytes
            if kind == 1 then
                bytes = from:take(REFERENCE_LENGTH)
                held = held + 1
            elseif kind == 2 then
                bytes = from:take(from:number(3) or 0)
                sent = sent + 1
            elseif kind == 0 and from:left() == 0 then
                break
            end
            if not bytes then
                complain(own, "An entry is cut or of no known kind")
                break
            end
            own:add(kind == 1 and fields.entry_reference or fields.entry_certificate, bytes)
        end
    end
    own:append_text(string.format(": %d by reference, %d whole", held, sent))
    return string.format("CompressedCertificate: %d of %d by reference", held, held + sent)
end

-- The thesis's messages in a run of records (RFC 5246, section 6.2). Their words, and whether one of them goes on in the next segment.
local function records(data, tree)
    local found, wants_more = {}, false
    local from = cursor(data)
    while from:left() >= 5 do
        local content = from:number(1)
        local version = from:number(2)
        local length = from:number(2)
        if content ~= 22 or math.floor(version / 256) ~= 3 or length > 2 ^ 14 then
            -- From ChangeCipherSpec on, nothing can be read.
            return found, false
        end
        local fragment = from:take(length)
        local is_cut = not fragment
        if is_cut then
            fragment = from:take(from:left())
        end
        if not fragment then
            break
        end
        local inside = cursor(fragment)
        while inside:left() >= 4 do
            local kind = inside:number(1)
            local size = inside:number(3)
            local body = inside:take(size)
            if not body and size > 0 then
                wants_more = is_cut and (kind == 1 or kind == tandem.prefs.certificate)
                break
            end
            if (kind == 1 or kind == 2) and body then
                show_hello(kind == 1, body, tree, found)
            elseif kind == tandem.prefs.certificate and body then
                found[#found + 1] = show_compressed(body, tree)
            end
        end
    end
    return found, wants_more
end

-- The message that begins in these bytes. Its words, and whether it goes on in the next segment.
local function message(data, tree, is_agreed, parts, tsval)
    if data:range(0, 1):uint() == 22 then
        return records(data, tree)
    end
    local publication = parse_publication(data)
    if publication then
        return { show_publication(publication, data, tree) }, false
    end
    local frame = parse_frame(data, is_agreed)
    if not frame then
        return {}, false
    elseif frame == "more" then
        return {}, true
    end
    return { show_frame(frame, tree, parts, tsval) }, false
end

-- The innermost TCP header's own, where it has one.
local function own(field, header)
    local all = { field() }
    local last = all[#all]
    return last and last.offset >= header.offset and last or nil
end

function tandem.dissector(_, pinfo, tree)
    local ports, streams, seqs = { tcp_port() }, { tcp_stream() }, { tcp_seq() }
    local header, stream, seq = ports[#ports], streams[#streams], seqs[#seqs]
    if not header or not stream or not seq then
        return
    end
    local said = {}
    local options = own(tcp_options, header)
    if options and options.len > 0 then
        said = proxy_options(options.range, tree)
        if #said > 0 then
            agreed[stream.value] = true
        end
    end
    local payload = own(tcp_payload, header)
    if payload and payload.len > 0 and payload.range:len() > 0 then
        local key = stream.value .. ":" .. header.value
        local data, number = payload.range, pinfo.number
        local before = pending[key]
        if not pinfo.visited and before and before.next == seq.value and before.bytes:len() < MOST_SPAN then
            local bytes = before.bytes
            bytes:append(data:bytes())
            before.parts[#before.parts + 1] = number
            joined[number] = { bytes = bytes, parts = before.parts }
        end
        local whole = joined[number]
        if whole then
            data = whole.bytes:tvb("Tandem, over segments"):range()
        end
        local is_agreed = agreed[stream.value] or false
        local words, wants_more = message(data, tree, is_agreed, whole and whole.parts, own(tcp_tsval, header))
        for _, word in ipairs(words) do
            said[#said + 1] = word
        end
        if wants_more and data:range(0, 1):uint() ~= 22 then
            local part = tree:add(tandem, payload.range, "Tandem frame, a part: " .. plural(data:len(), "byte") .. " so far")
            part:add_proto_expert_info(incomplete)
            said[#said + 1] = "part of a frame"
        end
        if not pinfo.visited then
            pending[key] = wants_more and {
                bytes = data:bytes(),
                next = (seq.value + payload.len) % 2 ^ 32,
                parts = whole and whole.parts or { number },
            } or nil
        end
    end
    if #said > 0 then
        pinfo.cols.info:append(" [Tandem: " .. table.concat(said, ", ") .. "]")
    end
end

register_postdissector(tandem)
