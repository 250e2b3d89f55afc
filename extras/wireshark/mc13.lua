-- Multi-context TLS on TLS 1.3 (`docs/mctls13.md`), for Wireshark and tshark 3.6 or newer:
--
--   wireshark -X lua_script:mc13.lua capture.pcapng
--   tshark -X lua_script:mc13.lua -r capture.pcapng -Y mc13 -O mc13
--
-- Is: what one hop carries (section 3): routes, the legs' TLS records by type, records of the session by context, author and number
-- (section 7), and the end-to-end TLS session, which Wireshark's own dissector shows.
-- Is not: a check of tags, nor a way to read contexts: both need the session's keys. Where a record's evidence ends and its ciphertext begins
-- depends on the rights that its context has, which cross encrypted: the two are shown as one.
--
-- A connection is found by its first bytes: a route (to a middlebox), or a ClientHello that offers `mc13` (to a server). Where a capture begins
-- later, use "Decode As". Whatever the bytes are, nothing here reads past their end: what cannot be read is shown as malformed.

local HEADER_LENGTH = 5
local RECORD_HEADER_LENGTH = 11
local MAX_MIDDLEBOXES = 16
local MAX_PARTS = 8

-- Types of a frame: name, and the longest body in bytes.
local TYPES = {
    [0x14] = { name = "TLS change cipher spec", longest = 16640 },
    [0x15] = { name = "TLS alert", longest = 16640 },
    [0x16] = { name = "TLS handshake", longest = 16640 },
    [0x17] = { name = "TLS application data", longest = 16640 },
    [0xb0] = { name = "leg", longest = 16386 },
    [0xb1] = { name = "record", longest = 17276 },
    [0xb2] = { name = "announce", longest = 0 },
    [0xb3] = { name = "route", longest = 4097 },
    [0xb4] = { name = "short record", longest = 17420 },
    [0xb5] = { name = "holds", longest = 662 },
}
local LEG, RECORD, ANNOUNCE, ROUTE, SHORT, HOLDS = 0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5
local ENDPOINTS = { [0] = "client", [1] = "server" }
-- Types of a TLS record (RFC 8446, section 5.1), and of the handshake messages that cross in clear (section 4).
local CONTENTS = { [20] = "change cipher spec", [21] = "alert", [22] = "handshake", [23] = "application data" }
local HANDSHAKES = { [1] = "ClientHello", [2] = "ServerHello" }

local names = {}
for number, kind in pairs(TYPES) do
    names[number] = kind.name
end

local mc13 = Proto("mc13", "Multi-context TLS")

local fields = {
    type = ProtoField.uint8("mc13.type", "Frame", base.HEX, names),
    version = ProtoField.uint16("mc13.version", "Version", base.HEX),
    length = ProtoField.uint16("mc13.length", "Length"),
    endpoint = ProtoField.uint8("mc13.leg.endpoint", "Leg of the", base.DEC, ENDPOINTS),
    distance = ProtoField.uint8("mc13.leg.distance", "Distance"),
    leg_type = ProtoField.uint8("mc13.leg.tls.type", "TLS record", base.DEC, CONTENTS),
    leg_bytes = ProtoField.bytes("mc13.leg.bytes", "Bytes of the leg's TLS session"),
    context = ProtoField.uint8("mc13.record.context", "Context"),
    author = ProtoField.uint8("mc13.record.author", "Author"),
    index = ProtoField.uint8("mc13.record.index", "Index in its group", base.DEC, nil, 0x7f),
    last = ProtoField.bool("mc13.record.last", "Last of its group", 8, nil, 0x80),
    seq = ProtoField.uint64("mc13.record.seq", "Number"),
    sealed = ProtoField.bytes("mc13.record.sealed", "Evidence and ciphertext"),
    count = ProtoField.uint8("mc13.route.count", "Addresses"),
    address = ProtoField.string("mc13.route.address", "Address"),
}
mc13.fields = fields

local malformed = ProtoExpert.new("mc13.malformed", "Malformed", expert.group.MALFORMED, expert.severity.WARN)
mc13.experts = { malformed }

local tls = Dissector.get("tls")

local function complain(tree, why)
    tree:add_proto_expert_info(malformed, why)
end

local function plural(count, word)
    return string.format("%d %s%s", count, word, count == 1 and "" or "s")
end

-- `body`: all bytes of a frame behind its header, a Tvb. Each returns its words for the info column.

local function show_route(body, tree)
    if body:len() < 1 then
        complain(tree, "No count")
        return "route"
    end
    local count, at = body(0, 1):uint(), 1
    tree:add(fields.count, body(0, 1))
    local addresses = {}
    for _ = 1, count do
        local length = at < body:len() and body(at, 1):uint() or 0
        if length == 0 or at + 1 + length > body:len() then
            complain(tree, "An address is cut or empty")
            return "route"
        end
        local address = body(at + 1, length)
        tree:add(fields.address, address)
        addresses[#addresses + 1] = address:string()
        at = at + 1 + length
    end
    if count == 0 or count > MAX_MIDDLEBOXES or at < body:len() then
        complain(tree, count == 0 and "No address" or at < body:len() and "Bytes behind the addresses" or "Too many addresses")
    end
    return "route to " .. table.concat(addresses, ", ")
end

-- Whole TLS records at the beginning of a leg's bytes. A record may begin in one frame and end in another: only its first piece is named.
local function show_leg_records(bytes, tree)
    local words, at = {}, 0
    while bytes:len() - at >= 5 do
        local kind, major = bytes(at, 1):uint(), bytes(at + 1, 1):uint()
        local length = bytes(at + 3, 2):uint()
        if not CONTENTS[kind] or major ~= 3 then
            break
        end
        local present = math.min(5 + length, bytes:len() - at)
        local word = CONTENTS[kind]
        if kind == 22 and present > 5 then
            word = HANDSHAKES[bytes(at + 5, 1):uint()] or word
        end
        tree:add(fields.leg_type, bytes(at, present), kind):append_text(string.format(", %s: %s", word, plural(length, "byte")))
        words[#words + 1] = word
        at = at + present
    end
    return #words > 0 and table.concat(words, " and ") or plural(bytes:len(), "byte")
end

local function show_leg(body, tree)
    if body:len() < 3 then
        complain(tree, "Too short for a leg")
        return "leg"
    end
    local endpoint, distance = body(0, 1):uint(), body(1, 1):uint()
    tree:add(fields.endpoint, body(0, 1))
    tree:add(fields.distance, body(1, 1))
    if not ENDPOINTS[endpoint] or distance < 1 or distance > MAX_MIDDLEBOXES then
        complain(tree, "No leg has this endpoint or distance")
    end
    local bytes = body(2)
    local said = show_leg_records(bytes, tree)
    tree:add(fields.leg_bytes, bytes)
    return string.format("leg of the %s, %d: %s", ENDPOINTS[endpoint] or "?", distance, said)
end

local function show_record(body, tree)
    if body:len() < RECORD_HEADER_LENGTH then
        complain(tree, "Too short for a record")
        return "record"
    end
    local context, author, part = body(0, 1):uint(), body(1, 1):uint(), body(2, 1):uint()
    local seq = body(3, 8):uint64()
    tree:add(fields.context, body(0, 1)):append_text(context == 0 and " (end to end)" or "")
    tree:add(fields.author, body(1, 1)):append_text(author == 0 and " (the endpoint)" or " (a middlebox)")
    tree:add(fields.index, body(2, 1))
    tree:add(fields.last, body(2, 1))
    tree:add(fields.seq, body(3, 8))
    if author > MAX_MIDDLEBOXES or part % 128 >= MAX_PARTS then
        complain(tree, "No record has this author or index")
    end
    if body:len() > RECORD_HEADER_LENGTH then
        tree:add(fields.sealed, body(RECORD_HEADER_LENGTH))
    end
    local by = author == 0 and "" or string.format(" by middlebox %d", author)
    return string.format("record %s in context %d%s", tostring(seq), context, by)
end

-- Between two paired middleboxes (section 11): the header is that of the record.
local function show_short(body, tree)
    return "short " .. show_record(body, tree)
end

local function show_holds(body, tree)
    tree:add(fields.sealed, body())
    return "what a paired middlebox holds"
end

local SHOW = {
    [ROUTE] = show_route,
    [LEG] = show_leg,
    [RECORD] = show_record,
    [SHORT] = show_short,
    [HOLDS] = show_holds,
}

-- One frame, whole.
local function show_frame(buffer, pinfo, root)
    local kind, length = buffer(0, 1):uint(), buffer(3, 2):uint()
    local known = TYPES[kind]
    local name = known and known.name or string.format("frame of type 0x%02x", kind)
    local tree = root:add(mc13, buffer(), "Multi-context TLS: " .. name)
    tree:add(fields.type, buffer(0, 1))
    tree:add(fields.version, buffer(1, 2))
    tree:add(fields.length, buffer(3, 2))
    if not known then
        complain(tree, "No frame has this type")
    elseif length > known.longest then
        complain(tree, "Too long for its type")
    end
    local words = name
    if SHOW[kind] and length > 0 then
        words = SHOW[kind](buffer(HEADER_LENGTH):tvb(), tree)
    elseif SHOW[kind] then
        complain(tree, "An empty body")
    elseif known and kind ~= ANNOUNCE then
        tls:call(buffer, pinfo, root)
    end
    pinfo.private.mc13 = (pinfo.private.mc13 and pinfo.private.mc13 .. "; " or "") .. words
end

-- Not by dissect_tcp_pdus: calling another dissector from within it ends Wireshark 4.0.
function mc13.dissector(buffer, pinfo, root)
    local at = 0
    while at < buffer:len() do
        local left = buffer:len() - at
        local whole = left >= HEADER_LENGTH and HEADER_LENGTH + buffer(at + 3, 2):uint() or nil
        if not whole or whole > left then
            pinfo.desegment_offset = at
            pinfo.desegment_len = whole and whole - left or DESEGMENT_ONE_MORE_SEGMENT
            break
        end
        show_frame(buffer(at, whole):tvb(), pinfo, root)
        at = at + whole
    end
    pinfo.cols.protocol = "mc13"
    -- Wireshark's own dissector keeps its words from being replaced.
    pinfo.cols.info:clear_fence()
    if pinfo.private.mc13 then
        pinfo.cols.info = pinfo.private.mc13
    end
    return buffer:len()
end

-- Whether a connection's first bytes are this protocol's. A hello that is cut before its list of protocols is not
-- recognised: "Decode As" shows such a connection.
local function begins(buffer)
    if buffer:len() < HEADER_LENGTH + 1 or buffer(1, 1):uint() ~= 3 then
        return false
    end
    local kind = buffer(0, 1):uint()
    if kind == ROUTE then
        return buffer(2, 1):uint() == 3 and buffer(3, 2):uint() <= TYPES[ROUTE].longest
    end
    -- The name in the hello's list of protocols (RFC 7301, section 3.1), its length before it.
    return kind == 0x16 and buffer(HEADER_LENGTH, 1):uint() == 1 and buffer():raw():find("\4mc13", 1, true) ~= nil
end

mc13:register_heuristic("tcp", function(buffer, pinfo, root)
    if not begins(buffer) then
        return false
    end
    pinfo.conversation = mc13
    mc13.dissector(buffer, pinfo, root)
    return true
end)

DissectorTable.get("tcp.port"):add_for_decode_as(mc13)
